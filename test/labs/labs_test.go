//go:build e2e

package labs

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

var (
	which = flag.String("labs", "all", `the labs to run: "all", or names separated by spaces`)
	// The expectations are upstream's wherever Berth promises upstream's behaviour.
	scheduler = flag.String("scheduler", berth, `who schedules: "berth" or "kube-scheduler"`)
)

const (
	berth         = "berth"
	kubeScheduler = "kube-scheduler"
)

// labs are all labs, by their folder under examples/labs.
var labs = map[string]func(*lab){
	"affinity-versions":      affinityVersions,
	"affinity-victim":        affinityVictim,
	"cross-node":             crossNode,
	"nomination-race":        nominationRace,
	"graceful-intruder":      gracefulIntruder,
	"pdb":                    disruptionBudget,
	"priority-inflation":     priorityInflation,
	"allocatable":            allocatable,
	"backoff":                backoff,
	"blocked-many":           blockedMany,
	"default-spread":         defaultSpread,
	"gates":                  gates,
	"ha-kill":                haKill,
	"hard-spread":            hardSpread,
	"node-affinity":          nodeAffinity,
	"node-name":              nodeName,
	"node-selector":          nodeSelector,
	"pod-affinity":           podAffinity,
	"priority":               priority,
	"profiles":               profiles,
	"quota-gate":             quotaGate,
	"scale-shards":           scaleShards,
	"taints":                 taints,
	"volumes":                volumes,
	"dra":                    devices,
	"three-pools":            threePools,
	"upgrade":                upgrade,
	"explain":                explained,
	"replay":                 replayed,
	"trace":                  traced,
	"utilization":            utilization,
	"new-node":               newNode,
	"strategy-duplicates":    strategyDuplicates,
	"strategy-node-affinity": strategyNodeAffinity,
	"strategy-anti-affinity": strategyAntiAffinity,
	"strategy-taints":        strategyTaints,
	"strategy-topology":      strategyTopology,
	"strategy-restarts":      strategyRestarts,
	"strategy-lifetime":      strategyLifetime,
	"strategy-failed":        strategyFailed,
	"guards":                 guards,
	"run-modes":              runModes,
	"rollout-safe":           rolloutSafe,
	"dry-run":                dryRun,
}

// ofBerth are the labs about what only Berth has: processes of its own, its
// explanations, and plans of descheduling.
var ofBerth = []string{
	"ha-kill", "scale-shards", "upgrade", "explain", "trace", "replay",
	"utilization", "new-node", "guards", "run-modes", "rollout-safe", "dry-run", "strategy-duplicates",
	"strategy-node-affinity", "strategy-anti-affinity", "strategy-taints", "strategy-topology", "strategy-restarts",
	"strategy-lifetime", "strategy-failed",
}

// apart are the labs about schedulers that do not know of each other: each profile of their
// configuration gets a kube-scheduler of its own.
var apart = []string{"nomination-race", "pdb"}

// programs are the binaries under test; TestMain fills them in.
var programs harness.Programs

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "labs", &programs, nil)) }

// TestLabs runs labs one after the other on one cluster, each with a Berth of its own.
func TestLabs(t *testing.T) {
	all := slices.Sorted(maps.Keys(labs))
	if found := folders(t); !slices.Equal(all, found) {
		t.Fatalf("examples/labs has %v, tested are %v", found, all)
	}
	if *scheduler != berth && *scheduler != kubeScheduler {
		t.Fatalf("-scheduler: %q: want %q or %q", *scheduler, berth, kubeScheduler)
	}
	selected := selection(t, all)
	dir := kit.Dir(t, "labs")
	cluster := startCluster(t, dir, 0)
	for i, name := range selected {
		passed := t.Run(name, func(t *testing.T) {
			l := newLab(t, cluster, filepath.Join(dir, name), name)
			labs[name](l)
			l.finish()
		})
		if !passed && i+1 < len(selected) {
			// What a lab that failed left behind is not the next one's problem.
			cluster = startCluster(t, dir, i+1)
		}
	}
}

func selection(t *testing.T, all []string) []string {
	t.Helper()
	if *which == "all" {
		if *scheduler == kubeScheduler {
			return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(ofBerth, name) })
		}
		return all
	}
	names := strings.Fields(*which)
	unknown := func(name string) bool { return labs[name] == nil }
	if len(names) == 0 || slices.ContainsFunc(names, unknown) {
		t.Fatalf("-labs: %q: want %q or some of %v", *which, "all", all)
	}
	return names
}

// startCluster starts a cluster without nodes and stops it at the end of the test.
func startCluster(t *testing.T, dir string, number int) *harness.Cluster {
	t.Helper()
	cluster, err := programs.StartCluster(t.Context(), harness.ClusterConfig{
		Dir: filepath.Join(dir, fmt.Sprintf("cluster-%d", number)),
	})
	if err != nil {
		t.Fatal(err)
	}
	kit.AtEnd(t, cluster.Stop)
	return cluster
}
