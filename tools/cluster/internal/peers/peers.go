package peers

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
	"github.com/berth-scheduler/berth/tools/cluster/internal/session"
)

// Scheduler describes a kube-scheduler.
type Scheduler struct {
	// Path is the program.
	Path string
	// Config is a KubeSchedulerConfiguration file; empty for the defaults. Its
	// clientConnection.kubeconfig must be left out or empty: the kubeconfig
	// comes from the cluster.
	Config string
	// Verbosity is klog's -v.
	Verbosity int
}

// Spec is the child against a cluster, serving metrics on the port.
func (p Scheduler) Spec(cluster session.Cluster, dir string, port int) (process.Spec, error) {
	args := []string{
		"--bind-address=" + process.Loopback,
		"--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + filepath.Join(dir, "serving"),
		"--authentication-kubeconfig=" + cluster.KubeSchedulerKubeconfig,
		"--authorization-kubeconfig=" + cluster.KubeSchedulerKubeconfig,
		fmt.Sprintf("--v=%d", p.Verbosity),
	}
	if p.Config == "" {
		args = append(args, "--leader-elect=false", "--kubeconfig="+cluster.KubeSchedulerKubeconfig)
		return process.Spec{Name: "kube-scheduler", Path: p.Path, Args: args}, nil
	}
	// With --config the scheduler ignores --kubeconfig and --leader-elect, so
	// they have to be written into a copy of the file.
	config, err := completeSchedulerConfig(p.Config, cluster.KubeSchedulerKubeconfig)
	if err != nil {
		return process.Spec{}, err
	}
	path, err := writeConfig(dir, "kube-scheduler.yaml", config)
	if err != nil {
		return process.Spec{}, err
	}
	args = append(args, "--config="+path)
	return process.Spec{Name: "kube-scheduler", Path: p.Path, Args: args}, nil
}

// Descheduler describes a descheduler.
type Descheduler struct {
	// Path is the program.
	Path string
	// Policy is a DeschedulerPolicy file.
	Policy string
	// Interval between passes in Go's notation; empty for a single pass.
	Interval string
	// DryRun evicts nothing.
	DryRun bool
	// FeatureGates is the flag of this name; empty for the defaults.
	FeatureGates string
	// Verbosity is klog's -v.
	Verbosity int
}

// Spec is the child against a cluster, serving metrics on the port.
func (p Descheduler) Spec(cluster session.Cluster, dir string, port int) (process.Spec, error) {
	policy, err := filepath.Abs(p.Policy)
	if err != nil {
		return process.Spec{}, err
	}
	args := []string{
		"--bind-address=" + process.Loopback,
		"--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + filepath.Join(dir, "serving"),
		"--client-connection-kubeconfig=" + cluster.Kubeconfig,
		"--policy-config-file=" + policy,
		"--leader-elect=false",
		fmt.Sprintf("--v=%d", p.Verbosity),
	}
	if p.Interval != "" {
		args = append(args, "--descheduling-interval="+p.Interval)
	}
	if p.DryRun {
		args = append(args, "--dry-run")
	}
	if p.FeatureGates != "" {
		args = append(args, "--feature-gates="+p.FeatureGates)
	}
	return process.Spec{Name: "descheduler", Path: p.Path, Args: args, MayEnd: p.Interval == ""}, nil
}

// URL is where a peer with this port serves /healthz and /metrics.
func URL(port int) string {
	return "https://" + net.JoinHostPort(process.Loopback, strconv.Itoa(port))
}
