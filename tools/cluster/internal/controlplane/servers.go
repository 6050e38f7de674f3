package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/berth-scheduler/berth/tools/cluster/internal/probe"
	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
	"github.com/berth-scheduler/berth/tools/cluster/internal/session"
	"github.com/berth-scheduler/berth/tools/cluster/internal/stores"
)

// Services get addresses from serviceRange, the API server the first one.
const (
	serviceRange   = "10.96.0.0/16"
	firstServiceIP = "10.96.0.1"
)

// frontProxy is the name that the API server shows to aggregated servers.
const frontProxy = "front-proxy"

// Clients of the controllers may send this many requests per second. The
// default of 20 makes a Deployment of 1,000 replicas take most of a minute,
// which would measure the flag and not the scheduler.
const (
	controllerQPS   = 300
	controllerBurst = 600
)

func (p *plane) startEtcd(ctx context.Context) error {
	path, err := p.program("etcd")
	if err != nil {
		return err
	}
	etcd := stores.Etcd{Path: path, Dir: p.Dir, Sync: p.Sync, TLS: p.server, CAFile: p.ca.CertFile}
	client, err := probe.Mutual(p.ca.CertFile, p.server)
	if err != nil {
		return err
	}
	state, health := p.session.State.Cluster, ""
	return p.session.Launch(ctx, session.Program{
		Ports: stores.EtcdPorts,
		Spec: func(ports []int) (process.Spec, error) {
			state.EtcdURL, health = etcd.URL(ports[0]), etcd.Health(ports)
			return etcd.Spec(ports)
		},
		Ready: func(ctx context.Context) error { return probe.OK(ctx, client, health) },
	})
}

func (p *plane) startAPIServer(ctx context.Context) error {
	path, err := p.program("kube-apiserver")
	if err != nil {
		return err
	}
	state := p.session.State.Cluster
	return p.session.Launch(ctx, session.Program{
		Ports: 1,
		Fixed: p.Port != 0,
		Spec: func(ports []int) (process.Spec, error) {
			port := cmp.Or(p.Port, ports[0])
			state.Server = localURL(port)
			return process.Spec{Name: "kube-apiserver", Path: path, Args: p.apiServerArgs(port)}, nil
		},
		Ready: func(ctx context.Context) error { return probe.OK(ctx, p.health, state.Server+"/readyz") },
	})
}

// apiServerArgs keeps to defaults but for addresses, files and concurrency.
// The endpoint reconciler is off because a loopback address is not allowed in
// an endpoint and it would complain for ever.
func (p *plane) apiServerArgs(port int) []string {
	args := []string{
		"--bind-address=" + process.Loopback,
		"--advertise-address=" + process.Loopback,
		"--secure-port=" + strconv.Itoa(port),
		"--endpoint-reconciler-type=none",
		"--etcd-servers=" + p.session.State.Cluster.EtcdURL,
		"--etcd-cafile=" + p.ca.CertFile,
		"--etcd-certfile=" + p.server.CertFile,
		"--etcd-keyfile=" + p.server.KeyFile,
		"--tls-cert-file=" + p.server.CertFile,
		"--tls-private-key-file=" + p.server.KeyFile,
		"--client-ca-file=" + p.ca.CertFile,
		"--proxy-client-cert-file=" + p.proxy.CertFile,
		"--proxy-client-key-file=" + p.proxy.KeyFile,
		"--requestheader-client-ca-file=" + p.ca.CertFile,
		"--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--authorization-mode=" + p.authorizers(),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p.ca.ServiceAccountKeyFile,
		"--service-account-signing-key-file=" + p.ca.ServiceAccountKeyFile,
		"--service-cluster-ip-range=" + serviceRange,
		"--allow-privileged=true",
		fmt.Sprintf("--max-requests-inflight=%d", p.MaxRequests),
		fmt.Sprintf("--max-mutating-requests-inflight=%d", p.MaxMutatingRequests),
	}
	if p.RuntimeConfig != "" {
		args = append(args, "--runtime-config="+p.RuntimeConfig)
	}
	if p.FeatureGates != "" {
		args = append(args, "--feature-gates="+p.FeatureGates)
	}
	return args
}

func (p *plane) startControllerManager(ctx context.Context) error {
	if p.Controllers == noControllers {
		return nil
	}
	path, err := p.program("kube-controller-manager")
	if err != nil {
		return err
	}
	var url string
	return p.session.Launch(ctx, session.Program{
		Ports: 1,
		Spec: func(ports []int) (process.Spec, error) {
			url = localURL(ports[0])
			return process.Spec{
				Name: "kube-controller-manager", Path: path, Args: p.controllerArgs(ports[0]),
			}, nil
		},
		Ready: func(ctx context.Context) error { return probe.OK(ctx, probe.Insecure(), url+"/healthz") },
	})
}

func (p *plane) controllerArgs(port int) []string {
	kubeconfig := p.componentKubeconfig("kube-controller-manager")
	return []string{
		"--bind-address=" + process.Loopback,
		"--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + filepath.Join(p.Dir, "pki", "kube-controller-manager"),
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + p.ca.ServiceAccountKeyFile,
		"--root-ca-file=" + p.ca.CertFile,
		"--cluster-signing-cert-file=" + p.ca.CertFile,
		"--cluster-signing-key-file=" + p.ca.KeyFile,
		"--controllers=" + p.controllerList(),
		"--leader-elect=false",
		fmt.Sprintf("--node-monitor-grace-period=%s", p.NodeLease),
		fmt.Sprintf("--kube-api-qps=%d", controllerQPS),
		fmt.Sprintf("--kube-api-burst=%d", controllerBurst),
	}
}

func localURL(port int) string {
	return "https://" + net.JoinHostPort(process.Loopback, strconv.Itoa(port))
}
