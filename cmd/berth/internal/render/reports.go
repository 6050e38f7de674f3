package render

import (
	"fmt"
	"io"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/audit"
	"github.com/berth-scheduler/berth/pkg/priorities"
)

// Audit prints the report of `berth audit`: counts, notes, findings, and the verdict as the last line. Preemption and
// moves have a line only if there were any.
//
//	ledger: 812 revisions (5 to 816), 256 partition hand-overs
//	reservations: 400 (400 handed over, 0 fenced, 0 unresolved)
//	API server: 2600 versions of 10 nodes and 410 pods: 400 bound by Berth, 0 by others
//	violation  S1 at revision 77  node/n1 pod/d/a: 2100 of cpu is bound or reserved on it, but 2000 is allocatable
//	1 violations, 0 warnings
func Audit(w io.Writer, r *audit.Report, format string) error {
	if done, err := Structured(w, r, format); done {
		return err
	}
	fmt.Fprintf(w, "ledger: %d revisions (%d to %d), %d partition hand-overs\n",
		r.Revisions, r.First, r.Last, r.Takeovers)
	fmt.Fprintf(w, "reservations: %d (%d handed over, %d fenced, %d unresolved)\n",
		r.Reserved, r.HandedOver, r.Fenced, r.Unresolved)
	// The counts of a history without preemption and moves would all be 0.
	if r.Nominated+r.Evictions > 0 {
		fmt.Fprintf(w, "preemption: %d nominated, %d promoted, %d given up after evictions; %d pods marked for eviction\n",
			r.Nominated, r.Promoted, r.Abandoned, r.Evictions)
	}
	if r.Moves > 0 {
		fmt.Fprintf(w, "moves: %d places kept, %d of them used\n", r.Moves, r.TakenOver)
	}
	if r.Gangs > 0 {
		fmt.Fprintf(w, "gangs: members of a group were reserved at %d revisions\n", r.Gangs)
	}
	fmt.Fprintf(w, "API server: %d versions of %d nodes and %d pods: %d bound by Berth, %d by others\n",
		r.Versions, r.Nodes, r.Pods, r.Bound, r.Foreign)
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	for _, f := range r.Findings {
		fmt.Fprintln(w, f)
	}
	// The list is cut for each invariant; the totals below are not.
	if r.Unlisted > 0 {
		fmt.Fprintf(w, "and %d more\n", r.Unlisted)
	}
	// Findings that are not listed count as well.
	n := r.Violations()
	_, err := fmt.Fprintf(w, "%d violations, %d warnings\n", n, len(r.Findings)+r.Unlisted-n)
	return err
}

// Check prints the report of `berth check`. It says whether the ledger was read, since a check without it finds less.
//
//	10 nodes, 410 pods: 400 bound (390 by Berth), 10 pending; 3 reserved, 0 of them being cancelled
//	warning  L7  resourceclaim/shop/gpu: has devices, but no pod uses them
//	0 violations, 1 warnings
func Check(w io.Writer, r *audit.CheckReport, format string) error {
	if done, err := Structured(w, r, format); done {
		return err
	}
	fmt.Fprintf(w, "%d nodes, %d pods: %d bound (%d by Berth), %d pending; ",
		r.Nodes, r.Pods, r.Bound, r.ByBerth, r.Pending)
	// Without the ledger, reservations and victims are unknown, which is not the same as none.
	if r.Ledger {
		fmt.Fprintf(w, "%d reserved, %d of them being cancelled\n", r.Reserved, r.Fencing)
	} else {
		fmt.Fprintln(w, "the ledger was not read (see --berth-namespace)")
	}
	for _, f := range r.Findings {
		fmt.Fprintln(w, f)
	}
	_, err := fmt.Fprintf(w, "%d violations, %d warnings\n", r.Violations(), len(r.Findings)-r.Violations())
	return err
}

// Priorities prints the tables of priorities and of quotas for PriorityClasses, in the order of the report; nothing if
// both are empty. Shares are of all bands, for CPU and memory of the requests of pods on nodes.
//
//	PRIORITY  CLASS  PODS  WAITING  SHARE  CPU   SHARE  MEMORY  SHARE
//	1000      high   40    2        10%    12    30%    30Gi    28%
//	0                360   0        90%    28    70%    77Gi    72%
func Priorities(w io.Writer, r priorities.Report) error {
	if len(r.Bands)+len(r.Quotas) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PRIORITY\tCLASS\tPODS\tWAITING\tSHARE\tCPU\tSHARE\tMEMORY\tSHARE")
	for _, b := range r.Bands {
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%.0f%%\t%s\t%.0f%%\t%s\t%.0f%%\n",
			b.Priority, b.Class, b.Pods, b.Waiting, 100*b.PodShare,
			resource.NewMilliQuantity(b.MilliCPU, resource.DecimalSI), 100*b.CPUShare,
			resource.NewQuantity(b.MemoryBytes, resource.BinarySI), 100*b.MemoryShare)
	}
	if len(r.Quotas) > 0 {
		fmt.Fprintln(table, "\nQUOTA\tSCOPE\tRESOURCE\tUSED\tHARD")
	}
	for _, q := range r.Quotas {
		fmt.Fprintf(table, "%s/%s\t%s\t%s\t%s\t%s\n", q.Namespace, q.Name, q.Scope, q.Resource, q.Used, q.Hard)
	}
	return table.Flush()
}
