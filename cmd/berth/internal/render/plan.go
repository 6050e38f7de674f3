package render

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
)

// Plan prints a plan of one descheduling cycle, one line for each pod that would be evicted or stays.
//
//	10 nodes, 2 pods picked, 1 to evict, 1 stay (facts 20000)
//
//	EVICT     FROM    LANDS ON  STRATEGY          WHY
//	shop/web  node-3  node-7    RemoveDuplicates  …
//
//	STAYS     ON      STRATEGY          BECAUSE
//	shop/db   node-3  RemoveDuplicates  …
func Plan(w io.Writer, r *plan.Report, format string) error {
	if done, err := Structured(w, r, format); done {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%d nodes, %d pods picked, %d to evict, %d stay (facts %d)\n",
		r.Nodes, r.Picked, len(r.Evict), len(r.Kept), r.Facts)
	// Nothing was planned, for this reason.
	if r.Skipped != "" {
		fmt.Fprintf(t, "no cycle: %s\n", r.Skipped)
	}
	// The stop switch is on: a running descheduler would plan the same and request nothing.
	if r.Paused != "" {
		fmt.Fprintf(t, "none of this would be carried out: %s\n", r.Paused)
	}
	if len(r.Evict) > 0 {
		fmt.Fprintln(t, "\nEVICT\tFROM\tLANDS ON\tSTRATEGY\tWHY")
	}
	for _, m := range r.Evict {
		// A plan may evict a pod without a node for its replacement.
		landing := m.Landing
		if landing == "" {
			landing = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", m.Pod, m.Node, landing, m.Strategy, m.Reason)
	}
	if len(r.Kept) > 0 {
		fmt.Fprintln(t, "\nSTAYS\tON\tSTRATEGY\tBECAUSE")
	}
	for _, k := range r.Kept {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", k.Pod, k.Node, k.Strategy, k.Because)
	}
	for _, f := range r.Failed {
		fmt.Fprintf(t, "\nfailed: %s of profile %s: %s\n", f.Strategy, f.Profile, f.Error)
	}
	return t.Flush()
}

// PlanSummary prints a summary of a plan: a paragraph for each strategy, and a line for each node that the plan
// affects.
func PlanSummary(w io.Writer, r *plan.Report, format string) error {
	if done, err := Structured(w, r, format); done {
		return err
	}
	fmt.Fprintf(w, "%d nodes, %d pods picked, %d to evict, %d stay (facts %d)\n",
		r.Nodes, r.Picked, len(r.Evict), len(r.Kept), r.Facts)
	if r.Skipped != "" {
		fmt.Fprintf(w, "no cycle: %s\n", r.Skipped)
	}
	// A strategy that picked nothing has its paragraph as well: that it ran is part of the answer.
	for _, s := range r.Strategies {
		// The report's lists are over all strategies; these are the counts of one.
		evicted, because := 0, map[string]int{}
		for _, m := range r.Evict {
			if m.Profile == s.Profile && m.Strategy == s.Strategy {
				evicted++
			}
		}
		for _, k := range r.Kept {
			if k.Profile == s.Profile && k.Strategy == s.Strategy {
				because[string(k.Because)]++
			}
		}
		fmt.Fprintf(w, "\n%s of profile %s: %d picked, %d to evict\n", s.Strategy, s.Profile, s.Picked, evicted)
		for _, sentence := range s.Says {
			fmt.Fprintf(w, "  %s\n", sentence)
		}
		// What the strategy says about nodes comes before the pods that protections and guards keep.
		for _, reason := range countsByReason(because) {
			fmt.Fprintf(w, "  stay: %s\n", reason)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
			fmt.Fprintf(w, "  node %s is %s\n", name, s.Nodes[name])
		}
	}
	for _, f := range r.Failed {
		fmt.Fprintf(w, "\n%s of profile %s failed: %s\n", f.Strategy, f.Profile, f.Error)
	}
	return writeByNode(w, r)
}

// countsByReason lists "n reason", the most frequent first, equal counts by name.
func countsByReason(because map[string]int) []string {
	reasons := slices.SortedFunc(maps.Keys(because), func(a, b string) int {
		return cmp.Or(cmp.Compare(because[b], because[a]), cmp.Compare(a, b))
	})
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%d %s", because[reason], reason)
	}
	return reasons
}

// nodeEffect is the effect of a plan on a node: how many pods leave it, how many replacements are expected on it, and
// how many pods stay on it for which reasons.
type nodeEffect struct {
	leave, arrive int
	because       map[string]int
}

// writeByNode prints the table of nodes that a plan affects; nothing if it affects none.
func writeByNode(w io.Writer, r *plan.Report) error {
	nodes := map[string]*nodeEffect{}
	// A node has a line if a pod leaves it, is expected on it, or stays on it.
	at := func(name string) *nodeEffect {
		if nodes[name] == nil {
			nodes[name] = &nodeEffect{because: map[string]int{}}
		}
		return nodes[name]
	}
	for _, m := range r.Evict {
		at(m.Node).leave++
		if m.Landing != "" {
			at(m.Landing).arrive++
		}
	}
	for _, k := range r.Kept {
		at(k.Node).because[string(k.Because)]++
	}
	if len(nodes) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nNODE\tLEAVE\tARRIVE\tSTAY")
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n := nodes[name]
		// A node that no pod stays on for a reason has a dash.
		stay := strings.Join(countsByReason(n.because), "; ")
		if stay == "" {
			stay = "-"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", name, n.leave, n.arrive, stay)
	}
	return t.Flush()
}
