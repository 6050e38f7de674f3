package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/seedtest"
)

// tally shows that the comparisons were about something.
type tally struct {
	total, placed, refused, failed, single, nominated int
	// unanswered are those of the failed that upstream alone failed at; see sides.
	unanswered int
	// changes of clusters between the decisions.
	changes int
	// rejects and ranks count, per plugin, the decisions in which it rejected a node, and in which its scores
	// differed between nodes.
	rejects, ranks map[string]int
	// reasons counts the decisions that had a reason.
	reasons map[string]int
}

func newTally() *tally {
	return &tally{rejects: map[string]int{}, ranks: map[string]int{}, reasons: map[string]int{}}
}

func (s *tally) count(a answer) {
	s.total++
	feasible := 0
	rejected, scores, reasons := map[string]bool{}, map[string]map[int64]bool{}, map[string]bool{}
	for _, n := range a.Nodes {
		for _, reason := range n.Reasons {
			reasons[reason] = true
		}
		if n.Code == "Success" {
			feasible++
		} else if n.Plugin != "" {
			rejected[n.Plugin] = true
		}
		for plugin, score := range n.Scores {
			if scores[plugin] == nil {
				scores[plugin] = map[int64]bool{}
			}
			scores[plugin][score] = true
		}
	}
	for reason := range reasons {
		s.reasons[reason]++
	}
	for plugin := range rejected {
		s.rejects[plugin]++
	}
	for plugin, different := range scores {
		if len(different) > 1 {
			s.ranks[plugin]++
		}
	}
	switch {
	case a.Nominated != "":
		s.nominated++
	case a.Failed:
		s.failed++
	case feasible == 0:
		s.refused++
	default:
		s.placed++
		if feasible == 1 {
			s.single++
		}
	}
}

// reasonsWith counts the decisions that had a reason with this part, once for each such reason.
func (s *tally) reasonsWith(part string) int {
	count := 0
	for reason, times := range s.reasons {
		if strings.Contains(reason, part) {
			count += times
		}
	}
	return count
}

// String is a table of what the plugins did, in percent of the decisions.
func (s *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d decisions, %d changes: %d placed (%d with one choice), %d nominated, %d refused, "+
		"%d failed, of them %d by upstream's allocator of devices alone\n",
		s.total, s.changes, s.placed, s.single, s.nominated, s.refused, s.failed, s.unanswered)
	fmt.Fprintf(&b, "%-36s rejects  ranks\n", "plugin")
	for _, c := range placement.DefaultProfile("").Plugins {
		if rejects(c.Name) || ranks(c.Name) {
			fmt.Fprintf(&b, "%-36s %7s %6s\n", c.Name, share(rejects(c.Name), s.percent(s.rejects[c.Name])),
				share(ranks(c.Name), s.percent(s.ranks[c.Name])))
		}
	}
	return b.String()
}

// share is empty for what a plugin does not do.
func share(does bool, percent float64) string {
	if !does {
		return ""
	}
	return fmt.Sprintf("%.1f%%", percent)
}

// filters are the plugins that reject nodes, scorers those that rank them.
var (
	filters = []string{
		names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity,
		names.NodePorts, names.NodeResourcesFit, names.PodTopologySpread, names.InterPodAffinity,
		names.NodeDeclaredFeatures,
	}
	scorers = []string{
		names.TaintToleration, names.NodeAffinity, names.NodeResourcesFit, names.PodTopologySpread,
		names.InterPodAffinity, names.NodeResourcesBalancedAllocation, names.ImageLocality,
	}
)

// volumeFilters are those about volumes, which only some clusters have.
var volumeFilters = []string{
	names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone,
}

// rejects reports whether a plugin can reject a node or a pod, ranks whether it scores.
func rejects(plugin string) bool {
	return plugin == names.SchedulingGates || slices.Contains(filters, plugin)
}

func ranks(plugin string) bool { return slices.Contains(scorers, plugin) }

func (s *tally) percent(count int) float64 { return 100 * float64(count) / float64(s.total) }

// What every plugin must at least have done, in percent of the decisions, for a run of at
// least manyDecisions to mean something. A shorter one may by chance do three quarters of it.
const (
	leastRejects  = 5
	leastRanks    = 20
	manyDecisions = 10_000
)

// lacks reports what the cases of a test have not met.
func lacks(t *testing.T, format string, args ...any) {
	t.Helper()
	seedtest.Lacks(t, *seed, *comparisons >= manyDecisions, format, args...)
}

// uncovered names what the input did not exercise.
func (s *tally) uncovered() []string {
	part := 1.0
	if s.total < manyDecisions {
		part = 0.75
	}
	var missing []string
	if s.placed < s.total/10 || s.refused < s.total/10 {
		missing = append(missing, "too few placed or refused")
	}
	for _, c := range placement.DefaultProfile("").Plugins {
		if rejects(c.Name) && s.percent(s.rejects[c.Name]) < part*leastRejects {
			missing = append(missing, c.Name+" rejects too little")
		}
		if ranks(c.Name) && s.percent(s.ranks[c.Name]) < part*leastRanks {
			missing = append(missing, c.Name+" ranks too little")
		}
	}
	return missing
}
