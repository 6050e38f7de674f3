package full

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// part is one measurement that can be made alone.
type part struct {
	name string
	// title is its heading in the documents, about what its duration for one run.
	title string
	about time.Duration
	// subcommand of berthbench, and its arguments without --runs and --out.
	subcommand string
	args       []string
	// once marks a subcommand without runs: one long measurement.
	once bool
}

const (
	small  = "tools/cluster/examples/bench-nodes.yaml"
	large  = "tools/cluster/examples/explain-nodes.yaml"
	rivals = "kube-scheduler,berth"
	// raws only bind; see package contend.
	raws = "raw-8,raw-16,raw-32,raw-64"
	// upstream is where scheduler_perf's files are in its module.
	upstream = "test/integration/scheduler_perf"
)

// parts are in the order in which they run and are reported.
var parts = []part{
	{name: "drain-1000", title: "Drain: 5,000 pods on 1,000 nodes", about: 4 * time.Minute, subcommand: "e2e",
		args: flags("--modes=drain", "--contenders="+rivals+","+raws, "--pods=5000", "--nodes="+small, "--memory")},
	{name: "drain-5000", title: "Drain: 10,000 pods on 5,000 nodes", about: 6 * time.Minute, subcommand: "e2e",
		args: flags("--modes=drain", "--contenders="+rivals+",raw-16,raw-32,raw-64", "--pods=10000", "--nodes="+large,
			"--timeout=30m")},
	{name: "drain-1000-fsync", title: "Drain: 5,000 pods on 1,000 nodes, etcd syncs every write", about: 4 * time.Minute,
		subcommand: "e2e", args: flags("--modes=drain", "--contenders="+rivals+","+raws, "--pods=5000", "--nodes="+small,
			"--fsync")},
	upstreams("affinity", "SchedulingPodAffinity/5000Nodes_5000Pods", "initPods=2500", "measurePods=2500"),
	upstreams("anti-affinity", "SchedulingPodAntiAffinity/5000Nodes_2000Pods"),
	upstreams("spread", "TopologySpreading/5000Nodes_5000Pods", "initPods=2500", "measurePods=2500"),
	upstreams("mixed", "MixedSchedulingBasePod/5000Nodes_5000Pods", "initPods=1000", "measurePods=2500"),
	upstreams("preemption", "PreemptionAsync/5000Nodes", "measurePods=2500"),
	upstreams("devices", "SchedulingWithResourceClaimTemplate/5000pods_500nodes"),
	{name: "open-50", title: "Open loop: 50 pods a second on 5,000 nodes", about: 6 * time.Minute, subcommand: "e2e",
		args: flags("--modes=open", "--rate=50", "--pods=3000", "--contenders="+rivals+",raw-64", "--nodes="+large)},
	{name: "open-200", title: "Open loop: 200 pods a second on 5,000 nodes", about: 5 * time.Minute, subcommand: "e2e",
		args: flags("--modes=open", "--rate=200", "--pods=12000", "--contenders="+rivals, "--nodes="+large)},
	{name: "failover", title: "Failover: two replicas, the one that leads is killed", about: 4 * time.Minute,
		subcommand: "e2e", args: flags("--modes=failover", "--rate=100", "--pods=6000", "--contenders="+rivals,
			"--nodes="+small)},
	{name: "log", title: "The log of facts: appends and deliveries", about: time.Minute, subcommand: "log"},
	{name: "path", title: "The path without the API server", about: 2 * time.Minute, subcommand: "path",
		args: flags("--pods=20000", "--shards=2", "--null", "--budget=test/perf/budget.yaml")},
	{name: "shards", title: "Each further shard without the API server: plain pods", about: 3 * time.Minute,
		subcommand: "path", args: flags("--pods=20000", "--shards=1,2,4", "--timeout=15m")},
	{name: "scaling", title: "Scaling without the API server: pods with rules", about: 3 * time.Minute,
		subcommand: "path", args: flags("--pods=12000", "--shards=1,2,4", "--workload=constrained", "--facts",
			"--timeout=15m")},
	{name: "conflicts", title: "Conflicts by shards and by how full the nodes are", about: 12 * time.Minute,
		subcommand: "path", args: flags("--nodes=5000", "--pods=10000", "--shards=1,2,4",
			"--full=10,50,70,90", "--timeout=15m")},
	{name: "idle", title: "An idle `berth up` on 1,000 nodes", about: 2 * time.Minute, subcommand: "steady", once: true,
		args: flags("--rate=0", "--for=2m", "--every=2s", "--nodes="+small)},
	{name: "steady", title: "An hour of pods that come and go", about: time.Hour, subcommand: "steady", once: true,
		args: flags("--rate=200", "--nodes="+small)},
}

func flags(list ...string) []string { return list }

// upstreams is a workload of scheduler_perf, with other parameters if there are any.
func upstreams(name, workload string, params ...string) part {
	p := part{name: name, title: "scheduler_perf: " + workload, about: 8 * time.Minute, subcommand: "perf",
		args: flags("--workloads="+workload, "--contenders="+rivals, "--timeout=60m")}
	for _, param := range params {
		p.args = append(p.args, "--param="+param)
	}
	return p
}

// find is the parts of these names, all when there are none.
func find(names []string) ([]part, error) {
	if len(names) == 0 {
		return parts, nil
	}
	var found []part
	for _, name := range names {
		i := len(found)
		for _, p := range parts {
			if p.name == name {
				found = append(found, p)
			}
		}
		if len(found) == i {
			return nil, fmt.Errorf("part %q: want some of %s", name, strings.Join(partNames(), ", "))
		}
	}
	return found, nil
}

func partNames() []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return names
}

// command is the whole command line of a part, the program first.
func (p part) command(o options) []string {
	line := append([]string{o.program, p.subcommand}, p.args...)
	if p.subcommand == "perf" {
		line = append(line, "--files="+filepath.Join(o.upstream, upstream))
	}
	if p.subcommand == "steady" && p.name == "steady" {
		line = append(line, "--for="+o.steady.String())
	}
	if !p.once {
		line = append(line, "--runs="+strconv.Itoa(o.runs))
	}
	return append(line, "--out="+filepath.Join(o.out, p.name))
}
