package shard

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
)

// State is a shard's knowledge. Only the decision core changes it.
type State struct {
	// ID is this member's id, as in own/<partition>.
	ID string
	// Profiles by scheduler name.
	Profiles map[string]*placement.Profile
	// Home reports whether a node is a home node of this shard, given the live shards (sorted); nil without home
	// nodes.
	Home func(members []string, nodeUID string) bool
	// HomeFirst makes decisions prefer the shard's home nodes among equally good ones, and plain pods try them first
	// where their profile says so.
	HomeFirst bool
	// HomeNodesFirst applies to profiles that do not say when home nodes are tried first.
	HomeNodesFirst placement.HomePolicy
	// NoEvidence omits evidence.Evidence from the decisions.
	NoEvidence bool
	// Laps, if not nil, observes the progress of evaluations.
	Laps engine.Timer

	// Now is the time of the current step.
	Now time.Time
	// Draining: the shard decides nothing more, and gives back what it has not sent.
	Draining bool

	// Store has the latest facts, Ledger the view of the ledger: the watch, and what transactions have shown ahead
	// of it.
	Store  *feed.Latest
	Ledger *replica.View
	// View counts the pods on each node according to the facts, the ledger, and the pods that the shard has staged.
	// Engine finds the nodes that a pod may be placed on; it follows View through Gate.
	View   *view.View
	Gate   *avoid.Gate
	Engine *engine.Engine
	// Avoid are the nodes that pods avoid for a while; Claims knows what volumes and devices are promised.
	Avoid  *avoid.Table
	Claims *claims.Book

	// overEpochs are the epochs that have ended, as a refused transaction has shown, by partition. The watch shows
	// the next owner later.
	overEpochs map[int32]int64
}

// New returns a State without facts: no node is usable until the first facts have reached their barrier.
func New(id string, profiles map[string]*placement.Profile) *State {
	s := &State{ID: id, Profiles: profiles, Store: feed.NewLatest(), Ledger: replica.NewView()}
	s.Engine = engine.New(engine.Config{})
	s.Gate = avoid.NewGate(s.Engine)
	s.View = view.New(s.Store, s.Ledger, s.Gate)
	s.Claims = &claims.Book{View: s.View, Ledger: s.Ledger}
	s.Avoid = avoid.NewTable(s.Gate, s.View, s.Ledger.Reservations)
	return s
}

// Replace starts again from the facts of a Reset.
func (s *State) Replace(step feed.Step) {
	s.Store.Advance(step)
	s.View.Reset(s.Store)
	s.Engine.SetObjects(s.View.Snapshot())
	s.Claims.Reset()
}

// Usable reports whether the facts have reached their barrier, and the ledger is open to them.
func (s *State) Usable() bool {
	p := s.Store.Position()
	_, ok := p.Progress(events.KindPod)
	return ok && s.Ledger.Permits(p.Epoch)
}

// Holds reports whether this shard owns a partition, and its epoch. The view of the ledger must have reached the
// epoch: every reservation of earlier owners was committed before it.
func (s *State) Holds(partition int32) (epoch int64, ok bool) {
	owner, epoch, ok := s.Ledger.Roster().Owner(partition)
	return epoch, ok && owner.Member == s.ID && epoch <= s.Ledger.Revision() && s.overEpochs[partition] != epoch
}

// LoseEpochs notes that transactions in these partitions were refused because of their epochs.
func (s *State) LoseEpochs(partitions []int32, epochs map[int32]int64) {
	for _, p := range partitions {
		if s.overEpochs == nil {
			s.overEpochs = map[int32]int64{}
		}
		s.overEpochs[p] = epochs[p]
	}
}

// Authority returns what entitles this shard to decide about a pod of a partition.
func (s *State) Authority(partition int32) (txns.Authority, bool) {
	epoch, ok := s.Holds(partition)
	return txns.Authority{
		Epochs: map[int32]int64{partition: epoch}, TermRegistryRevision: s.Ledger.Terms().RegistryRevision(),
	}, ok
}

// Partitions counts the partitions that this shard holds.
func (s *State) Partitions() (n int) {
	for _, owner := range s.Ledger.Roster().Owners() {
		if owner.Member == s.ID {
			n++
		}
	}
	return n
}

// Members lists the live shards, sorted; this one is always among them.
func (s *State) Members() []string {
	ids := []string{s.ID}
	for _, m := range s.Ledger.Roster().Members(membership.RoleScheduler) {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// IsHome reports whether a node is a home node of this shard.
func (s *State) IsHome(nodeUID string) bool { return s.Home != nil && s.Home(s.Members(), nodeUID) }

// Namespace returns the labels of a namespace, if the facts show it.
func (s *State) Namespace(name string) guard.Namespace {
	o, ok := s.View.Snapshot().ObjectByName(events.KindNamespace, "", name)
	if !ok {
		return guard.Namespace{}
	}
	return guard.Namespace{Labels: o.API.GetLabels(), Known: true}
}

// OpenDoc returns a node's document without its finished entries.
func (s *State) OpenDoc(nodeUID, nodeName string) ledger.NodeDoc {
	var rv uint64
	if n, ok := s.View.Node(nodeUID); ok {
		rv = n.Node.ResourceVersion
	}
	doc, _ := txns.Finish(s.Ledger.Open(nodeUID, nodeName, rv), s.View.TxnFacts())
	return doc
}

// HeldBy returns the documents of volumes and device pools in which a reservation holds something, sorted by key.
func (s *State) HeldBy(token ledger.Token) []ledger.ExclusiveDoc {
	var held []ledger.ExclusiveDoc
	for x := range s.Ledger.Exclusives().All() {
		if slices.ContainsFunc(x.Holders, func(h ledger.Holder) bool { return h.Token == token }) {
			held = append(held, x)
		}
	}
	slices.SortFunc(held, func(a, b ledger.ExclusiveDoc) int { return strings.Compare(a.Key, b.Key) })
	return held
}

// NamesOf returns the names of the nodes that exist, sorted.
func (s *State) NamesOf(uids []string) []string {
	var names []string
	for _, uid := range uids {
		if n, ok := s.View.Node(uid); ok {
			names = append(names, n.Node.Name)
		}
	}
	slices.Sort(names)
	return names
}

// NodesWith returns all nodes, with the given one in place of its current state.
func (s *State) NodesWith(node *state.NodeInfo) []*state.NodeInfo {
	nodes := slices.Clone(s.View.Nodes())
	for i, n := range nodes {
		if n.Node.UID == node.Node.UID {
			nodes[i] = node
		}
	}
	return nodes
}

// UsePromises makes the engine look up volumes and devices as they are promised, until done is called.
func (s *State) UsePromises(v claims.Supply) (done func()) {
	if !v.Promised() {
		return func() {}
	}
	s.Engine.Refresh(v.Lookups(s.View.Snapshot()))
	return func() { s.Engine.Refresh(s.View.Snapshot()) }
}

// Since returns the time since t, in the precision of records.
func (s *State) Since(t time.Time) time.Duration { return s.Now.Sub(t).Truncate(time.Microsecond) }

// IsHold reports whether an entry holds a place for a pod until its victims have gone, or until plugins have acted.
func IsHold(e *ledger.Entry) bool {
	return e.Role == ledger.RoleReservation && e.State == ledger.Held && e.Plan != ""
}
