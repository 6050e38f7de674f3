// Command shardmemory measures how much memory one scheduler shard takes to hold a cluster:
// the real service from its facade down, which reads every fact, decides about pods and
// reserves their nodes. The log makes up its facts as they are read and keeps none of them;
// ledger and bus are those in memory.
//
// In the number: state, ledger picture, engine with its caches, the reading of facts, and
// the ledger's own documents of what has been decided (in production etcd holds those). Not
// in it: clients of NATS and etcd, and their buffers.
//
// The bound that counts is resident memory under a GOMEMLIMIT, so that is what is reported,
// together with the limit; live bytes of the heap are beside it. Run it with
// `make bench-placement`. Start reading at measure.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"github.com/berth-scheduler/berth/test/program"
)

func main() { os.Exit(program.Run("shardmemory", mainErr)) }

// options are the command line.
type options struct {
	nodes, pods, podsPerApp, decisions int
	steady, timeout                    time.Duration
	out, profile                       string
}

func mainErr(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	r, err := measure(ctx, o)
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	if o.out == "" {
		_, err = os.Stdout.Write(raw)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(o.out, raw, 0o644)
}

func parse(args []string) (options, error) {
	var o options
	set := flag.NewFlagSet("shardmemory", flag.ContinueOnError)
	set.IntVar(&o.nodes, "nodes", 5000, "nodes of the cluster")
	set.IntVar(&o.pods, "pods", 150_000, "pods on them, a multiple of the nodes")
	set.IntVar(&o.podsPerApp, "pods-per-app", 100, "pods that come from one template, on average")
	set.IntVar(&o.decisions, "decisions", 2000, "pods to place, of as many templates as there are")
	set.DurationVar(&o.steady, "steady", 10*time.Second, "time between the last change and a reading")
	set.DurationVar(&o.timeout, "timeout", 20*time.Minute, "time for everything")
	set.StringVar(&o.out, "out", "", "file for the JSON report; standard output when empty")
	set.StringVar(&o.profile, "heap-profile", "", "file for a heap profile, taken at the end")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if o.nodes < 1 || o.pods < o.nodes || o.pods%o.nodes != 0 {
		return o, fmt.Errorf("--nodes: %d, --pods: %d: want at least 1 node and a multiple of it", o.nodes, o.pods)
	}
	if o.podsPerApp < 1 || o.decisions < 0 {
		return o, fmt.Errorf("--pods-per-app: %d, --decisions: %d: want at least 1 and 0", o.podsPerApp, o.decisions)
	}
	return o, nil
}

// report is what the program writes.
type report struct {
	Nodes, Pods, Apps int
	// MemoryLimit is GOMEMLIMIT in bytes, 0 for none.
	MemoryLimit int64
	// Loaded is the state after all facts, Decided that after the decisions.
	Loaded, Decided reading
	// LoadSeconds is the time from the start to readiness.
	LoadSeconds float64
	// Placed and Refused are the decisions.
	Placed, Refused int
}

// reading is the memory at one time, in bytes.
type reading struct {
	// Resident and Peak are the kernel's VmRSS and VmHWM.
	Resident, Peak int64
	// Live is what a garbage collection found in use.
	Live int64
}

// measure runs a shard until it has seen everything, then lets it decide.
func measure(ctx context.Context, o options) (report, error) {
	begin := time.Now()
	log := newFactLog(o)
	r := report{Nodes: o.nodes, Pods: o.pods, Apps: log.apps, MemoryLimit: debug.SetMemoryLimit(-1)}
	s, err := startShard(ctx, log)
	if err != nil {
		return r, err
	}
	defer s.stop()
	if err := s.awaitReady(ctx); err != nil {
		return r, err
	}
	r.LoadSeconds = time.Since(begin).Seconds()
	if r.Loaded, err = settledReading(ctx, o.steady); err != nil {
		return r, err
	}
	if r.Placed, r.Refused, err = s.decide(ctx); err != nil {
		return r, err
	}
	if r.Decided, err = settledReading(ctx, o.steady); err != nil {
		return r, err
	}
	return r, writeProfile(o.profile)
}

func writeProfile(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.WriteHeapProfile(f); err != nil {
		return err
	}
	return f.Close()
}
