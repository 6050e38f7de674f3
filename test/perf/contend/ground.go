package contend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/test/e2e/audit"
	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/sink"
)

// stopWithin bounds the end of a run.
const stopWithin = 2 * time.Minute

// Ground is where one run happens: a directory, a fresh cluster, and the contender that runs on it.
type Ground struct {
	Programs harness.Programs
	Cluster  *harness.Cluster
	// Dir gets data and logs, Config is the file with Config.
	Dir, Config string
	// Sync lets the API server's etcd sync every write to disk. Without it no bind waits for a disk, which is faster
	// than any cluster that keeps its data.
	Sync bool
	// Args are appended to Berth's command lines.
	Args []string
	// Namespace is where the pods are created, and where raw contenders find them. Coming reports whether these only
	// arrive while the contender runs.
	Namespace string
	Coming    bool
	// PIDs are the contender's processes, stores of its own included: Berth in one process has them inside,
	// so leaving them out elsewhere would not compare like with like.
	PIDs []int
	// Address is where Berth in one process serves its pages; empty for other contenders.
	Address string
	// stops end the started processes, in reverse order.
	stops []func(context.Context) error
}

// NewGround makes the directory and writes Config into it. The ground has to be closed, even after an error.
func NewGround(programs harness.Programs, namespace string) (*Ground, error) {
	dir, err := os.MkdirTemp("", "berth-bench-")
	g := &Ground{Programs: programs, Dir: dir, Namespace: namespace}
	if err != nil {
		return g, err
	}
	g.Config, err = WriteConfig(dir)
	return g, err
}

// Profiling makes the contender serve /debug/pprof if it is Berth.
func (g *Ground) Profiling(on bool) {
	if on {
		g.Args = append(g.Args, "--profiling")
	}
}

// StartCluster starts the cluster, in a directory below Dir, and creates Namespace if there is one.
func (g *Ground) StartCluster(ctx context.Context, cfg harness.ClusterConfig) (err error) {
	cfg.Dir, cfg.Sync = filepath.Join(g.Dir, "cluster"), g.Sync
	if g.Cluster, err = g.Programs.StartCluster(ctx, cfg); err != nil || g.Namespace == "" {
		return err
	}
	return harness.CreateNamespace(ctx, g.Cluster.Client, harness.Namespace(g.Namespace))
}

// StartPlain starts a cluster without kubelets, with the nodes of a file below the root of the repository.
func (g *Ground) StartPlain(ctx context.Context, nodes string) error {
	return g.StartCluster(ctx, harness.ClusterConfig{Nodes: filepath.Join(g.Programs.Root, nodes), NoKubelets: true})
}

// Kubeconfig returns the path of the file by which Berth reaches the API server.
func (g *Ground) Kubeconfig() string {
	if g.Cluster != nil {
		return g.Cluster.Kubeconfig
	}
	return filepath.Join(g.Dir, "kubeconfig")
}

// StartSink starts a sink with these nodes in place of the cluster's API server.
func (g *Ground) StartSink(nodes []*corev1.Node) (*sink.Server, error) {
	api, err := sink.Start()
	if err != nil {
		return nil, err
	}
	g.Add(func(context.Context) error { api.Close(); return nil })
	if err := os.WriteFile(g.Kubeconfig(), api.Kubeconfig(), 0o600); err != nil {
		return nil, err
	}
	return api, api.AddNodes(nodes)
}

// Add registers something that runs: how it ends, and its processes if they are the contender's.
func (g *Ground) Add(stop func(context.Context) error, pids ...int) {
	g.PIDs = append(g.PIDs, pids...)
	g.stops = append(g.stops, stop)
}

// Audit checks every placement from the API server's own state, and returns all pods.
func (g *Ground) Audit(ctx context.Context) ([]corev1.Pod, error) {
	nodes, pods, err := harness.ListAll(ctx, g.Cluster.Client)
	if err != nil {
		return nil, err
	}
	if wrong := audit.Check(nodes, pods); len(wrong) > 0 {
		return nil, fmt.Errorf("audit: %d findings, the first: %s", len(wrong), wrong[0])
	}
	return pods, nil
}

// Stop ends the added processes, the last first.
func (g *Ground) Stop(ctx context.Context) error {
	var errs []error
	for _, stop := range slices.Backward(g.stops) {
		errs = append(errs, stop(ctx))
	}
	g.stops = nil
	return errors.Join(errs...)
}

// Close ends everything, even after the end of ctx, and removes the directory.
func (g *Ground) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	errs := []error{g.Stop(ctx)}
	if g.Cluster != nil {
		errs = append(errs, g.Cluster.Stop(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(g.Dir))...)
}

// File writes a file into Dir and returns its path.
func (g *Ground) File(name, content string) (string, error) {
	path := filepath.Join(g.Dir, name)
	return path, os.WriteFile(path, []byte(content), 0o600)
}
