package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
)

// demoTimeout bounds the whole demonstration, once everything is built.
const demoTimeout = 10 * time.Minute

func main() {
	var d demo
	flag.StringVar(&d.bin, "bin", ".build/bin", "directory of the built programs")
	flag.StringVar(&d.dir, "dir", ".build/demo", "directory for all files")
	flag.StringVar(&d.nodes, "nodes", "tools/cluster/examples/demo-nodes.yaml", "node file")
	flag.BoolVar(&d.keep, "keep", os.Getenv("DEMO_KEEP") == "1", "leave the cluster and Berth running")
	flag.BoolVar(&d.stopOnly, "stop", false, "stop what a demo with DEMO_KEEP=1 left running, and nothing else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	err := d.run(ctx)
	cancel()
	stop()
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is one demonstration.
type demo struct {
	bin, dir, nodes string
	keep, stopOnly  bool
}

func (d *demo) run(ctx context.Context) (err error) {
	if err := d.prepare(); err != nil {
		return err
	}
	if d.stopOnly {
		return nil
	}
	defer func() {
		if !d.keep || err != nil {
			err = errors.Join(err, d.stop())
		}
	}()
	logf("Starting a local cluster: kube-apiserver, kube-controller-manager, etcd, simulated kubelets.")
	if err := d.startCluster(ctx); err != nil {
		return err
	}
	logf("Starting Berth on it: berth up --shards 2 --binders 2.")
	if err := d.startBerth(ctx); err != nil {
		return err
	}
	client, err := d.client()
	if err != nil {
		return err
	}
	paths, err := placeWorkloads(ctx, client)
	if err != nil {
		return err
	}
	if err := account(ctx, os.Stdout, client, paths); err != nil {
		return err
	}
	if err := d.explainPath(ctx, os.Stdout, paths); err != nil {
		return err
	}
	if d.keep {
		d.printUsage()
	}
	return nil
}

// placeWorkloads creates the workloads while watching their pods, and returns when all are
// bound.
func placeWorkloads(ctx context.Context, client kubernetes.Interface) (map[string]*podPath, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	watch, err := watchPods(ctx, client)
	if err != nil {
		return nil, err
	}
	var paths map[string]*podPath
	g.Go(func() error {
		var err error
		paths, err = watch.waitBound(ctx, workloadPods)
		return err
	})
	logf("Creating a Deployment (%d pods), a StatefulSet (%d pods) and %d Jobs (%d pods each).",
		webReplicas, dbReplicas, jobs, podsPerJob)
	g.Go(func() error { return createWorkloads(ctx, client) })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return paths, nil
}

func logf(format string, args ...any) {
	fmt.Printf("%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}
