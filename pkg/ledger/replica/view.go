package replica

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// View is what one member knows of the ledger: node documents, partition owners, members, the term registry,
// guards. It is fed by Follow (Fold, in order) and, ahead of the watch, by the member's own committed transactions
// (LearnOwn) and by lost compares (Learn).
//
// A View belongs to one goroutine. The values it returns are never changed afterwards and must not be changed by
// the reader.
type View struct {
	revision int64
	docs     map[string]ledger.NodeDoc
	// reserved lists, by pod UID, the nodes whose documents reserve for the pod: one, unless the protocol was
	// violated.
	reserved map[string][]string
	owners   map[int32]ownership
	wanted   map[int32]ownership
	members  map[string]membership
	cluster  string
	// store is the identity of the store that the view shows, 0 while that is not known.
	store      uint64
	generation identity.Generation
	terms      termView
	claims     claimView
	names      nameView
	// highest is the highest high-water of any document seen, by kind.
	highest map[string]uint64
	// reached is, by kind, the highest resourceVersion that an entry of any document seen names.
	reached map[string]uint64
}

type ownership struct {
	owner    roster.Owner
	epoch    int64
	modified int64
}

type membership struct {
	member   roster.Member
	modified int64
}

// NewView returns an empty view at revision 0. Until it has been Reset it knows nothing, and nothing can be
// concluded from it.
func NewView() *View {
	v := &View{}
	v.clear()
	return v
}

func (v *View) clear() {
	*v = View{
		docs:     map[string]ledger.NodeDoc{},
		reserved: map[string][]string{},
		owners:   map[int32]ownership{},
		wanted:   map[int32]ownership{},
		members:  map[string]membership{},
		terms:    newTermView(),
		claims:   newClaimView(),
		names:    newNameView(),
		highest:  map[string]uint64{},
		reached:  map[string]uint64{},
	}
}

// Clone returns an independent copy for another goroutine. Its cost is proportional to the content of the ledger.
func (v *View) Clone() *View {
	c := *v
	c.docs, c.reserved = maps.Clone(v.docs), maps.Clone(v.reserved)
	c.owners = maps.Clone(v.owners)
	c.wanted = maps.Clone(v.wanted)
	c.members = maps.Clone(v.members)
	c.highest, c.reached = maps.Clone(v.highest), maps.Clone(v.reached)
	c.terms = v.terms.clone()
	c.claims = v.claims.clone()
	c.names = v.names.clone()
	return &c
}

// Revision is the ledger revision up to which the view is complete; values added by Learn may be newer. It is 0
// before the first Reset.
func (v *View) Revision() int64 { return v.revision }

// Doc returns the document of a node; false when the ledger has none. A node's first document starts from Open.
func (v *View) Doc(nodeUID string) (ledger.NodeDoc, bool) {
	d, ok := v.docs[nodeUID]
	return d, ok
}

// Docs iterates over all documents, in no order.
func (v *View) Docs() iter.Seq[ledger.NodeDoc] {
	return func(yield func(ledger.NodeDoc) bool) {
		for _, d := range v.docs {
			if !yield(d) {
				return
			}
		}
	}
}

// Reservations returns all entries that reserve for a pod, with their documents, in no order. A pod has at most
// one, as long as every member keeps to the protocol; a reader that must not rely on that counts them all.
func (v *View) Reservations(podUID string) iter.Seq2[ledger.NodeDoc, ledger.Entry] {
	return func(yield func(ledger.NodeDoc, ledger.Entry) bool) {
		for _, uid := range v.reserved[podUID] {
			d := v.docs[uid]
			if e, ok := d.Find(podUID); ok && !yield(d, e) {
				return
			}
		}
	}
}

// Entry returns the reservation of a pod and the document that contains it. If several nodes have one, it returns
// the one that binds the pod soonest (Committed, Fencing, Held; then the lower node UID), so that every member gets
// the same one.
func (v *View) Entry(podUID string) (ledger.NodeDoc, ledger.Entry, bool) {
	var doc ledger.NodeDoc
	var entry ledger.Entry
	found := false
	for d, e := range v.Reservations(podUID) {
		if !found || before(d, e, doc, entry) {
			doc = d
			entry = e
			found = true
		}
	}
	return doc, entry, found
}

func before(d ledger.NodeDoc, e ledger.Entry, other ledger.NodeDoc, otherEntry ledger.Entry) bool {
	rank := func(s ledger.State) int {
		return slices.Index([]ledger.State{ledger.Committed, ledger.Fencing, ledger.Held}, s)
	}
	c := cmp.Or(cmp.Compare(rank(e.State), rank(otherEntry.State)), strings.Compare(d.NodeUID, other.NodeUID))
	return c < 0
}

// Reserved iterates over the UIDs of all pods with a reservation, in no order.
func (v *View) Reserved() iter.Seq[string] {
	return func(yield func(string) bool) {
		for uid := range v.reserved {
			if !yield(uid) {
				return
			}
		}
	}
}

// Owner returns the holder of a partition, and the epoch (create revision) that the holder compares.
func (v *View) Owner(partition int32) (owner roster.Owner, epoch int64, ok bool) {
	o, ok := v.owners[partition]
	return o.owner, o.epoch, ok
}

// Owners iterates over the held partitions and their owners, in no order.
func (v *View) Owners() iter.Seq2[int32, roster.Owner] {
	return func(yield func(int32, roster.Owner) bool) {
		for p, o := range v.owners {
			if !yield(p, o.owner) {
				return
			}
		}
	}
}

// Wanted iterates over the partitions that are wanted for a certain member, with the member's id.
func (v *View) Wanted() iter.Seq2[int32, string] {
	return func(yield func(int32, string) bool) {
		for p, o := range v.wanted {
			if !yield(p, o.owner.Member) {
				return
			}
		}
	}
}

// Members returns the live members of a role, sorted by id.
func (v *View) Members(role string) []roster.Member {
	var out []roster.Member
	for _, m := range v.members {
		if m.member.Role == role {
			out = append(out, m.member)
		}
	}
	slices.SortFunc(out, func(a, b roster.Member) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// HighWater returns the highest high-water of a kind among all documents that exist or existed. A member whose
// progress has reached it is up to date for every node.
func (v *View) HighWater(kind string) uint64 { return v.highest[kind] }

// Reached returns the highest resourceVersion of a kind that Kubernetes must have had, according to all documents
// that exist or existed: the HighWater, and the versions that entries were decided on. A Kubernetes that has not
// come that far was restored from a backup. Unlike a high-water, a member need not have applied it to use a
// document.
func (v *View) Reached(kind string) uint64 { return max(v.highest[kind], v.reached[kind]) }

// Cluster returns the UID of the Kubernetes cluster this ledger belongs to; empty when unclaimed.
func (v *View) Cluster() string { return v.cluster }
