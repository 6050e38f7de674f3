package render

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/berth-scheduler/berth/pkg/simulate"
)

// Simulation prints a report of `berth simulate`: the state it starts from, the changes, a table for each outcome
// (tables without a row are left out), and the totals.
//
//	at fact 20000, ledger revision 816; then 9 nodes, 401 pods on them
//	  drained node node-3
//
//	EVICTED   FROM    BY     WHY
//	shop/web  node-3  drain
//
//	PLACED    ON      REPLACES ONE ON  FEASIBLE
//	shop/web  node-7  node-3           5
//
//	1 evicted, 0 stay, 1 placed, 0 pending
func Simulation(w io.Writer, r *simulate.Report) error {
	out := &Lines{w: w}
	out.Printf("at fact %d, ledger revision %d; then %d nodes, %d pods on them\n", r.Facts, r.Ledger, r.Nodes, r.Pods)
	for _, change := range r.Changes {
		out.Printf("  %s\n", change)
	}
	// The prediction is less certain for these pods.
	if r.Unasked > 0 {
		out.Printf(
			"%d pods are placed by built-in rules only: extenders or plugins that would be consulted are not called\n",
			r.Unasked)
	}
	// Each table is aligned by itself.
	table := func(header string, rows [][]any) {
		if len(rows) == 0 {
			return
		}
		t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintf(t, "\n%s\n", header) // out keeps the error
		for _, row := range rows {
			for i, cell := range row {
				if i > 0 {
					_, _ = fmt.Fprint(t, "\t")
				}
				_, _ = fmt.Fprint(t, cell)
			}
			_, _ = fmt.Fprintln(t)
		}
		_ = t.Flush()
	}
	table("EVICTED\tFROM\tBY\tWHY", evictionRows(r.Evicted))
	table("STAYS\tON\tBY\tBECAUSE", evictionRows(r.Kept))
	// A pod that was waiting replaces no other one.
	var placed, pending [][]any
	for _, p := range r.Placed {
		placed = append(placed, []any{p.Pod, p.Node, dash(p.Replaces), p.Feasible})
	}
	for _, p := range r.Pending {
		pending = append(pending, []any{p.Pod, dash(p.Replaces), p.Why})
	}
	table("PLACED\tON\tREPLACES ONE ON\tFEASIBLE", placed)
	table("PENDING\tREPLACES ONE ON\tWHY", pending)
	out.Printf("\n%d evicted, %d stay, %d placed, %d pending\n",
		len(r.Evicted), len(r.Kept), len(r.Placed), len(r.Pending))
	return out.err
}

// evictionRows returns the rows of the tables of evicted and of kept pods, which have the same columns.
func evictionRows(list []simulate.Eviction) [][]any {
	var rows [][]any
	for _, e := range list {
		rows = append(rows, []any{e.Pod, e.Node, e.By, e.Why})
	}
	return rows
}

// dash returns "-" for an empty cell, so that scripts can split the columns.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
