package explain

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// The states of a member of a gang.
const (
	MemberBound    = "bound"
	MemberReserved = "reserved"
	MemberHeld     = "holding a place until others have left"
	MemberFencing  = "reservation being taken back"
	MemberWaiting  = "waiting"
	MemberGated    = "gated"
	MemberDeleting = "being deleted"
	MemberEnded    = "ended"
)

// MaxDomains bounds the domains in a GangView: those with the most room.
const MaxDomains = 5

// MaxMembers bounds the members in a GangView, so that it fits in a message: the first by name.
const MaxMembers = 1000

// shownMembers and shownDomains are how many of each are shown unless all are requested.
const shownMembers, shownDomains = 12, 3

// GangView is a PodGroup and its pods as a shard's next decision would see them.
type GangView struct {
	Namespace, Name string
	// UID is that of the object; empty if there is none.
	UID string `json:",omitempty"`
	// MinCount is how many members must be placed for any to be; 0 for the policy "basic".
	MinCount int
	// Topology are the label keys of nodes for each of which all members must be on nodes of one value.
	Topology []string `json:",omitempty"`
	// Condition is the condition PodGroupScheduled, as status, reason and message; empty if it is not set.
	Condition string `json:",omitempty"`
	// Counts is the number of members in each state, Members the first MaxMembers of them.
	Counts  map[string]int
	Members []GangMember
	// Need is how many of the waiting members must find a node for any of them to be reserved; 0 if none waits.
	Need int
	// Failed explains why no domain can be named.
	Failed string `json:",omitempty"`
	// Domains are those with the most slots, most slots first, of DomainCount. A group without topology keys has one,
	// without a name: all nodes. It is empty if no member waits.
	Domains     []GangDomain `json:",omitempty"`
	DomainCount int
	// Behind is how many nodes cannot be used until the facts about them arrive.
	Behind int `json:",omitempty"`
}

// GangMember is one pod of a gang.
type GangMember struct {
	Pod, UID string
	// State is one of the constants above.
	State string
	Node  string `json:",omitempty"`
	// Message is that of the pod's condition PodScheduled.
	Message string `json:",omitempty"`
}

// GangDomain is a set of nodes on which a gang could be placed together.
type GangDomain struct {
	Name  string
	Nodes int
	// Slots is how many of the smallest of the waiting members fit there by their resources alone.
	Slots int
}

// Gang is the answer to `berth explain gang`.
type Gang struct {
	GangView
	// Member is the shard that answered.
	Member string
	// Queue is the queue's answer about the member that stands in the queue for the gang; nil without an answer.
	Queue *QueueAnswer `json:",omitempty"`
}

// Total returns the number of members.
func (v *GangView) Total() (n int) {
	for _, members := range v.Counts {
		n += members
	}
	return n
}

// Text writes the answer for people, as of now. wide shows all members and domains. It returns the first error of w. A
// gang that waits for room looks like this:
//
//	gang shop/train  uid 0b1c…  minCount 8, all in one example.com/rack, as scheduler-1 counts it
//	10 pods: 10 waiting
//	8 of the waiting pods must find a node together
//	condition: False, Unschedulable: pod group is unschedulable: 0/4 placements are available
//	queue: shop/train-0 stands for the gang, in pool parked for 12s
//	  rejected by GangScheduling, NodeResourcesFit: 0/4 placements are available: 6 of 8 members fit in …
//	domains: 4, by resources alone
//	  6 of the smallest waiting pods fit in rack-7, 3 nodes
//	MEMBER        STATE    NODE  MESSAGE
//	shop/train-0  waiting  -     0/4 placements are available: 6 of 8 members fit in the best one, rack-7
func (g *Gang) Text(w io.Writer, now time.Time, wide bool) error {
	p := &page{w: w, now: now, wide: wide}
	p.line("gang %s/%s  %s, as %s counts it", g.Namespace, g.Name, g.policy(), g.Member)
	p.line("%s", g.summary())
	if g.Need > 0 {
		p.line("%d of the waiting pods must find a node together", g.Need)
	}
	if g.Condition != "" {
		p.line("condition: %s", g.Condition)
	}
	p.gangInQueue(g.Queue)
	p.domains(&g.GangView)
	if len(g.Members) == 0 {
		return p.err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	shown := g.Members
	if !wide && len(shown) > shownMembers {
		shown = shown[:shownMembers]
	}
	fmt.Fprintln(table, "MEMBER\tSTATE\tNODE\tMESSAGE")
	for _, m := range shown {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", m.Pod, m.State, cmp.Or(m.Node, "-"), cmp.Or(m.Message, "-"))
	}
	if err := firstError(p.err, table.Flush()); err != nil {
		return err
	}
	switch n := g.Total() - len(shown); {
	case n > 0 && !wide:
		p.line("and %d more; -o wide shows more", n)
	case n > 0:
		p.line("and %d more", n)
	}
	return p.err
}

// policy returns the group's requirements in words.
func (v *GangView) policy() string {
	if v.UID == "" {
		return "no PodGroup of this name exists"
	}
	text := "uid " + v.UID + "  basic: its pods are placed one by one"
	if v.MinCount > 0 {
		text = fmt.Sprintf("uid %s  minCount %d", v.UID, v.MinCount)
	}
	if len(v.Topology) > 0 {
		text += ", all in one " + strings.Join(v.Topology, " and one ")
	}
	return text
}

// summary counts the members by state.
func (v *GangView) summary() string {
	var parts []string
	for _, state := range []string{
		MemberBound, MemberReserved, MemberHeld, MemberFencing, MemberWaiting, MemberGated, MemberDeleting, MemberEnded,
	} {
		if n := v.Counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(parts) == 0 {
		return "no pods"
	}
	return fmt.Sprintf("%d pods: %s", v.Total(), strings.Join(parts, ", "))
}

// gangInQueue writes what the queue knows of the member that stands for the gang.
func (p *page) gangInQueue(q *QueueAnswer) {
	switch {
	case q == nil:
		p.line("queue: no leading queue answered")
		return
	case q.Pool == "":
		return
	}
	stands := "stands for the gang, in pool"
	if q.Pool == "gated" || q.Pool == "grouped" {
		stands = "is in pool"
	}
	p.line("queue: %s/%s %s %s for %s",
		q.Where.Namespace, q.Where.Name, stands, q.Pool, duration.HumanDuration(p.now.Sub(q.Since)))
	if q.Reason != "" {
		p.line("  %s", q.Reason)
	}
	for _, w := range q.Wakes {
		p.line("  woken for %s by: %s", w.Plugin, strings.Join(w.Events, ", "))
	}
}

// domains writes where waiting members could be placed together.
func (p *page) domains(v *GangView) {
	if v.Failed != "" {
		p.line("domains: %s", v.Failed)
	}
	if len(v.Domains) == 0 {
		return
	}
	if len(v.Topology) == 0 {
		all := v.Domains[0]
		p.line("room: %d of the smallest waiting pods fit on %d nodes, by resources alone", all.Slots, all.Nodes)
		return
	}
	p.line("domains: %d, by resources alone", v.DomainCount)
	shown := v.Domains
	if !p.wide && len(shown) > shownDomains {
		shown = shown[:shownDomains]
	}
	for _, d := range shown {
		p.line("  %d of the smallest waiting pods fit in %s, %d nodes", d.Slots, d.Name, d.Nodes)
	}
	if v.Behind > 0 {
		p.line("  %d nodes cannot be used until the facts about them arrive", v.Behind)
	}
}
