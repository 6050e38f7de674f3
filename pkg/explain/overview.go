package explain

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/berth-scheduler/berth/pkg/anomaly"
)

// Overview is the status of a whole Berth installation. Its fields are the output of `berth status -o json`.
type Overview struct {
	// Queue is the status of the leading queue, nil if there is none; Leader is its id.
	Queue  *QueueStatus `json:",omitempty"`
	Leader string       `json:",omitempty"`
	// Descheduler is the member that runs descheduling cycles; empty if none is known.
	Descheduler string        `json:",omitempty"`
	Shards      []ShardAnswer `json:",omitempty"`
	// FactsEnd is the last sequence of the log of facts.
	FactsEnd uint64
	// FactLag is the number of records that each member which answered is behind FactsEnd.
	FactLag map[string]uint64
	// Warnings are for operators, the worst first.
	Warnings []string `json:",omitempty"`
}

// lagWarning is the lag, in messages of the log, from which a warning is due: the threshold of the alert
// BerthShardLags.
const lagWarning = 2000

// NewOverview combines answers. It is pure: queue is nil when no queue leads or answers. Shards are in the order of
// their names. Warnings are in this order: the queue, members that lag or do not answer, missing services, the version
// of Kubernetes, settings, anomalies.
func NewOverview(queue *QueueAnswer, shards []ShardAnswer, factsEnd uint64, descheduler string) Overview {
	o := Overview{Descheduler: descheduler, FactsEnd: factsEnd, FactLag: map[string]uint64{}}
	// Shards first: their lag is known even if no queue answers.
	for _, s := range shards {
		if s.Status != nil {
			o.Shards = append(o.Shards, s)
			o.recordLag(s.Member, s.FactSequence)
		}
	}
	slices.SortFunc(o.Shards, func(a, b ShardAnswer) int { return strings.Compare(a.Member, b.Member) })
	// Without a queue nothing else is known; its absence is the worst warning and so the first.
	if queue == nil || queue.Status == nil {
		o.Warnings = append([]string{"no leading queue answered: pods are not offered to shards"}, o.Warnings...)
		return o
	}
	o.Queue, o.Leader = queue.Status, queue.Member
	o.recordLag(queue.Member, queue.FactSequence)
	// The ledger knows which members are alive; one that is and does not answer hangs, or has lost NATS.
	alive := map[string]int{}
	for _, m := range o.Queue.Members {
		alive[m.Role]++
		answers := func(s ShardAnswer) bool { return s.Member == m.ID }
		if m.Role == "scheduler" && !slices.ContainsFunc(o.Shards, answers) {
			o.Warnings = append(o.Warnings, fmt.Sprintf("shard %s is running but does not answer", m.ID))
		}
	}
	for _, role := range []string{"scheduler", "binder"} {
		if alive[role] == 0 {
			o.Warnings = append(o.Warnings, "no "+role+" is running")
		}
	}
	if o.Queue.KubernetesLater != "" {
		o.Warnings = append(o.Warnings, o.Queue.KubernetesLater)
	}
	o.Warnings = append(o.Warnings, o.Queue.FeatureGates...)
	o.Warnings = append(o.Warnings, o.Queue.Settings...)
	for _, f := range o.Queue.Anomalies.Findings {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%s: %s: %s", f.Rule, f.About, f.Detail))
	}
	// A rule lists only its first findings, and counts all.
	for _, rule := range anomaly.Rules {
		listed := 0
		for _, f := range o.Queue.Anomalies.Findings {
			if f.Rule == rule {
				listed++
			}
		}
		if more := o.Queue.Anomalies.Found[rule] - listed; more > 0 {
			o.Warnings = append(o.Warnings, fmt.Sprintf("%s: and %d more", rule, more))
		}
	}
	return o
}

// recordLag records how far a member is behind the log, and warns if that is much. A member may have applied more than
// FactsEnd, which was read before; then it is not behind.
func (o *Overview) recordLag(member string, applied uint64) {
	behind := o.FactsEnd - min(applied, o.FactsEnd)
	o.FactLag[member] = behind
	if behind > lagWarning {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%s is %d messages of facts behind", member, behind))
	}
}

// Text writes the overview, without the warnings, for people, as of now:
//
//	SERVICE      MEMBER         UP      PARTITIONS  FACTS BEHIND
//	queue        queue-a        1h0m0s  -           0             leads
//	scheduler    scheduler-0-a  1m0s    200         10
//
//	PODS  GATED  ACTIVE  BACKOFF  PARKED  OFFERED  HELD
//	      0      3       0        2       4        0
func (o *Overview) Text(w io.Writer, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if o.Queue != nil {
		o.members(t, now)
		o.queue(t)
	}
	o.shards(t)
	if o.Queue != nil {
		o.promises(t)
	}
	return t.Flush()
}

// members writes the table of live members, in the order of a pod's path. The descheduler that runs cycles, if it is
// known, has a line at the end.
func (o *Overview) members(t io.Writer, now time.Time) {
	fmt.Fprintln(t, "SERVICE\tMEMBER\tUP\tPARTITIONS\tFACTS BEHIND\t")
	for _, m := range o.Queue.Members {
		// Only shards own partitions, and only the leading queue and shards report how far they are behind.
		partitions := "-"
		behind := "-"
		leads := ""
		if m.Role == "scheduler" {
			partitions = fmt.Sprint(m.Partitions)
		}
		if lag, known := o.FactLag[m.ID]; known {
			behind = fmt.Sprint(lag)
		}
		if m.ID == o.Leader {
			leads = "leads"
		}
		up := now.Sub(m.Started).Truncate(time.Second)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Role, m.ID, up, partitions, behind, leads)
	}
	if o.Descheduler != "" {
		fmt.Fprintf(t, "descheduler\t%s\t-\t-\t-\tleads\n", o.Descheduler)
	}
	if o.Queue.Kubernetes != "" {
		fmt.Fprintf(t, "\nKUBERNETES\t%s\n", o.Queue.Kubernetes)
	}
}

// pools are in the order of a pod's path, as far as there is one.
var pools = []string{"gated", "active", "backoff", "parked", "offered", "held"}

// queue writes the table of pools.
func (o *Overview) queue(t io.Writer) {
	fmt.Fprintf(t, "\nPODS\t%s\n", strings.ToUpper(strings.Join(pools, "\t")))
	for _, pool := range pools {
		fmt.Fprintf(t, "\t%d", o.Queue.Pools[pool])
	}
	fmt.Fprintln(t)
}

// shards writes the table of the shards that answered.
func (o *Overview) shards(t io.Writer) {
	if len(o.Shards) == 0 {
		return
	}
	fmt.Fprintln(t, "\nSHARD\tNODES\tPODS\tRESERVED\tPLACES HELD\tOFFERED\tCONFLICTS\tNODES AVOIDED")
	for _, s := range o.Shards {
		offered := "-"
		if o.Queue != nil {
			offered = fmt.Sprint(o.Queue.Offered[s.Member])
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", s.Member, s.Status.Nodes, s.Status.Pods, s.Status.Reserved,
			s.Status.Held, offered, counts(s.Status.Conflicts), counts(s.Status.LeftAlone))
	}
}

// promises writes the tables of the ledger's entries, by age, and of claims on disruption budgets.
func (o *Overview) promises(t io.Writer) {
	if len(o.Queue.Entries) > 0 {
		fmt.Fprintln(t, "\nLEDGER\tSTATE\tENTRIES\tTO 10 S\tTO 1 MIN\tTO 10 MIN\tOLDER\tOLDEST")
	}
	for _, e := range o.Queue.Entries {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", e.Role, e.State, e.Count,
			e.ByAge[0], e.ByAge[1], e.ByAge[2], e.ByAge[3], e.Oldest.Truncate(time.Second))
	}
	if len(o.Queue.Budgets) > 0 {
		fmt.Fprintln(t, "\nBUDGET\tCLAIMED")
	}
	for _, b := range o.Queue.Budgets {
		fmt.Fprintf(t, "%s/%s\t%d\n", b.Namespace, b.Name, b.Claims)
	}
}

// counts returns a text such as "3 node, 1 guard", or 0. Names with a count of 0 are left out.
func counts(of map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if of[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of[name], name))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}
