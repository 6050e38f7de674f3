package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// unlimited switches client-go's own rate limiting off: the tests measure Berth, not their client.
const unlimited = -1

// ClusterConfig describes the cluster to start.
type ClusterConfig struct {
	// Dir is where everything is written.
	Dir string
	// Nodes is a node file of the driver; empty for no nodes.
	Nodes string
	// NoKubelets leaves out the simulated kubelets: pods stay Pending after they were bound.
	NoKubelets bool
	// RuntimeConfig and FeatureGates are the API server's flags of these names; empty for its defaults.
	RuntimeConfig, FeatureGates string
	// Sync lets the API server's etcd sync every write to disk.
	Sync bool
}

// Cluster is a running local cluster without a scheduler.
type Cluster struct {
	// Dir is where everything is written, Kubeconfig the administrator's.
	Dir, Kubeconfig string
	// Rest is the administrator's access, without client-side rate limits.
	Rest *rest.Config
	// Client is made from Rest.
	Client kubernetes.Interface

	programs Programs
	// arguments are the driver's to start it with the nodes that it has.
	arguments []string
	// processes are its programs' process ids, by name.
	processes map[string]int
}

// driverState is the driver's output when something is ready.
type driverState struct {
	URLs    []string `json:"urls"`
	Cluster struct {
		Kubeconfig string `json:"kubeconfig"`
	} `json:"cluster"`
	Processes []struct {
		Name string `json:"name"`
		PID  int    `json:"pid"`
	} `json:"processes"`
}

func (s driverState) pids() []int {
	pids := make([]int, 0, len(s.Processes))
	for _, process := range s.Processes {
		pids = append(pids, process.PID)
	}
	return pids
}

func (s driverState) named() map[string]int {
	pids := map[string]int{}
	for _, process := range s.Processes {
		pids[process.Name] = process.PID
	}
	return pids
}

// StartCluster starts a cluster and returns when its nodes are schedulable.
func (p Programs) StartCluster(ctx context.Context, cfg ClusterConfig) (*Cluster, error) {
	args := []string{"up", "--dir", cfg.Dir}
	if p.Kubernetes != "" {
		args = append(args, "--kubernetes", p.Kubernetes)
	}
	if cfg.NoKubelets {
		args = append(args, "--kwok=false")
	}
	if cfg.RuntimeConfig != "" {
		args = append(args, "--runtime-config", cfg.RuntimeConfig)
	}
	if cfg.FeatureGates != "" {
		args = append(args, "--feature-gates", cfg.FeatureGates)
	}
	if cfg.Sync {
		args = append(args, "--fsync")
	}
	first := slices.Clone(args)
	if cfg.Nodes != "" {
		first = append(first, "--nodes", cfg.Nodes)
	}
	state, err := p.drive(ctx, first...)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		Dir: cfg.Dir, Kubeconfig: state.Cluster.Kubeconfig, programs: p, arguments: args, processes: state.named(),
	}
	if c.Rest, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return nil, err
	}
	c.Rest.QPS = unlimited
	c.Client, err = kubernetes.NewForConfig(c.Rest)
	return c, err
}

// drive runs a command of the driver that leaves something running, tied to this process.
func (p Programs) drive(ctx context.Context, args ...string) (driverState, error) {
	var state driverState
	args = append(args, "--detach", fmt.Sprintf("--parent-pid=%d", os.Getpid()))
	result, err := run(ctx, p.Cluster, args...)
	if err != nil {
		return state, err
	}
	if result.Code != 0 {
		return state, fmt.Errorf("cluster %s: exit code %d\n%s", strings.Join(args, " "), result.Code, result.Stderr)
	}
	if err := json.Unmarshal([]byte(result.Stdout), &state); err != nil {
		return state, fmt.Errorf("cluster %s: read its output: %w", strings.Join(args, " "), err)
	}
	return state, nil
}

// Stop ends every process of the cluster and of everything started against it.
func (c *Cluster) Stop(ctx context.Context) error { return c.programs.down(ctx, c.Dir) }

func (p Programs) down(ctx context.Context, dir string) error {
	result, err := run(ctx, p.Cluster, "down", "--dir", dir)
	if err == nil && result.Code != 0 {
		err = fmt.Errorf("cluster down --dir %s: exit code %d\n%s", dir, result.Code, result.Stderr)
	}
	return err
}

// PIDs are the processes of the cluster's programs of these names.
func (c *Cluster) PIDs(programs ...string) []int {
	var pids []int
	for _, name := range programs {
		if pid, ok := c.processes[name]; ok {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Signal sends a signal to one of the cluster's programs, such as kube-apiserver.
func (c *Cluster) Signal(program string, s syscall.Signal) error {
	pid, ok := c.processes[program]
	if !ok {
		return fmt.Errorf("the cluster has no program %q", program)
	}
	return syscall.Kill(pid, s)
}

// Tails are the ends of the logs of the cluster's programs.
func (c *Cluster) Tails() string { return Tails(filepath.Join(c.Dir, "log")) }

// Tails are the ends of the logs in a directory, in the order of their names.
func Tails(dir string) string {
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is well formed
	all := make([]string, 0, len(logs))
	for _, log := range logs {
		all = append(all, tail(log))
	}
	return strings.Join(all, "\n")
}

// Store is a running etcd or nats-server of Berth's own.
type Store struct {
	// URL is where clients connect, PIDs are its processes.
	URL  string
	PIDs []int

	dir      string
	programs Programs
}

// StartStore starts "etcd" or "nats", which syncs every write.
func (p Programs) StartStore(ctx context.Context, name, dir string) (*Store, error) {
	state, err := p.drive(ctx, "store", name, "--dir", dir)
	if err != nil {
		return nil, err
	}
	if len(state.URLs) == 0 {
		return nil, fmt.Errorf("cluster store %s: it is ready and tells no URL", name)
	}
	return &Store{URL: state.URLs[0], PIDs: state.pids(), dir: dir, programs: p}, nil
}

// Stop ends the store; its data stays.
func (s *Store) Stop(ctx context.Context) error { return s.programs.down(ctx, s.dir) }

// Peer is a running program that Berth is compared with.
type Peer struct {
	// PIDs are its processes.
	PIDs []int

	dir      string
	programs Programs
}

// PeerConfig describes which scheduler to start, and how.
type PeerConfig struct {
	// Name distinguishes several kube-schedulers of one cluster; empty for "kube-scheduler".
	Name string
	// Config is a KubeSchedulerConfiguration file; empty for kube-scheduler's defaults.
	Config string
	// Policy is a DeschedulerPolicy file, which makes it a descheduler. It makes a pass every
	// Interval.
	Policy   string
	Interval time.Duration
	// FeatureGates are the descheduler's, in the notation of its flag; empty for its defaults.
	FeatureGates string
}

// StartKubeScheduler starts the upstream scheduler against the cluster, with a
// KubeSchedulerConfiguration file or, when it is empty, its defaults.
func (c *Cluster) StartKubeScheduler(ctx context.Context, config string) (*Peer, error) {
	return c.StartPeer(ctx, PeerConfig{Config: config})
}

// StartPeer starts an upstream program against the cluster and returns when it is ready.
func (c *Cluster) StartPeer(ctx context.Context, cfg PeerConfig) (*Peer, error) {
	name := cmp.Or(cfg.Name, "kube-scheduler")
	args := []string{"peer", "kube-scheduler", "--dir", c.Dir, "--name", name}
	if cfg.Policy != "" {
		name = "descheduler"
		args = []string{"peer", name, "--dir", c.Dir, "--policy", cfg.Policy, "--interval", cfg.Interval.String()}
		if cfg.FeatureGates != "" {
			args = append(args, "--feature-gates", cfg.FeatureGates)
		}
	}
	if cfg.Config != "" {
		args = append(args, "--config", cfg.Config)
	}
	state, err := c.programs.drive(ctx, args...)
	if err != nil {
		return nil, err
	}
	return &Peer{PIDs: state.pids(), dir: filepath.Join(c.Dir, "peers", name), programs: c.programs}, nil
}

// Stop ends it.
func (p *Peer) Stop(ctx context.Context) error { return p.programs.down(ctx, p.dir) }

// StartReplica starts a kube-scheduler with a KubeSchedulerConfiguration file that has everything in it, the kubeconfig
// and leader election among it, and does not wait for it. Its log is dir/<name>.log.
func (c *Cluster) StartReplica(dir, name, config string) (*Process, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	program := "kube-scheduler"
	if c.programs.Kubernetes != "" {
		program += "-" + c.programs.Kubernetes
	}
	return c.programs.StartProgram(dir, name, program, "--config="+config, "--v=2",
		"--bind-address="+host, "--secure-port="+port, "--cert-dir="+filepath.Join(dir, name+"-serving"),
		"--authentication-kubeconfig="+c.Kubeconfig, "--authorization-kubeconfig="+c.Kubeconfig)
}

// Unready returns why a node is not ready, empty if it is.
func Unready(node *corev1.Node) string {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return "it still has " + taint.Key
		}
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return ""
		}
	}
	return "it is not Ready"
}
