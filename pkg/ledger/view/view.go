package view

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
)

// Facts is the API view: a *state.Store that keeps changing, or Frozen.
type Facts interface {
	Snapshot() *state.Snapshot
	Position() state.Position
}

// Frozen holds the facts of one snapshot.
type Frozen struct{ At *state.Snapshot }

// Snapshot implements Facts.
func (f Frozen) Snapshot() *state.Snapshot { return f.At }

// Position implements Facts.
func (f Frozen) Position() state.Position { return f.At.Position() }

// View joins a state.Store and a replica.View, both updated by the owner of this View, into one NodeInfo per node.
// It is not safe for concurrent use.
type View struct {
	store    Facts
	ledger   *replica.View
	snapshot *state.Snapshot

	slots map[string]*slot // by node name; a slot may exist before its node does
	nodes []*state.NodeInfo
	// byUID finds the slot of a node that exists.
	byUID        map[string]*slot
	nodesVersion uint64 // moves when nodes do
	tally        tally
	staged       map[string]stagedPod
	// unknown holds UIDs with a reservation whose pod the API view does not show (yet), or not in the version that
	// was decided on. They must be checked again whenever progress moves.
	unknown map[string]struct{}
	fates   fates
	kept    keptPlaces
	usability
}

type slot struct {
	name string
	info *state.NodeInfo
	// placed is true while info is in View.nodes, that is while the node exists.
	placed bool
	// usable is the value last reported to the follower.
	usable bool
}

type stagedPod struct {
	node string
	pod  *state.Pod
	// instead is the placeholder whose place the pod takes; 0 for none.
	instead ledger.Token
}

// New returns a view over a store and a ledger view in any state. The follower receives everything that exists, and
// every change from then on; nil for no follower.
func New(store Facts, l *replica.View, f Follower) *View {
	if f == nil {
		f = nobody{}
	}
	v := &View{ledger: l, usability: usability{follower: f}}
	v.Reset(store)
	return v
}

// Reset rebuilds everything on a new store (after a gap in the log). Staged pods stay.
func (v *View) Reset(store Facts) {
	for _, n := range v.nodes {
		v.follower.DropNode(n)
	}
	staged := v.staged
	*v = View{
		nodesVersion: v.nodesVersion + 1,
		store:        store,
		ledger:       v.ledger,
		slots:        map[string]*slot{},
		byUID:        map[string]*slot{},
		tally:        newTally(),
		staged:       staged,
		unknown:      map[string]struct{}{},
		kept:         newKeptPlaces(v.kept.taken),
		fates:        fates{every: v.fates.every},
		usability:    newUsability(v.follower),
	}
	if v.staged == nil {
		v.staged = map[string]stagedPod{}
	}
	v.snapshot = store.Snapshot()
	for n := range v.snapshot.Nodes() {
		v.setNode(n)
	}
	for p := range v.snapshot.Pods() {
		v.recount(p.UID)
	}
	v.RecountLedger()
	for uid := range v.staged {
		v.recount(uid)
	}
}

// RecountLedger recounts every reservation (after the ledger view was reset).
func (v *View) RecountLedger() {
	seen := make([]string, 0, len(v.tally.counted))
	for uid := range v.tally.counted {
		seen = append(seen, uid)
	}
	for doc := range v.ledger.Docs() {
		for i := range doc.Entries {
			if doc.Entries[i].Role == ledger.RoleReservation {
				seen = append(seen, doc.Entries[i].PodUID)
			}
		}
		seen = append(seen, placeholdersOf(doc)...)
	}
	for _, uid := range seen {
		v.recount(uid)
	}
	for _, s := range v.byUID {
		v.doubt(s)
	}
}

// ApplyFacts folds in what store.Apply just changed.
func (v *View) ApplyFacts(c state.Changes) {
	v.snapshot = v.store.Snapshot()
	for _, n := range c.Nodes {
		if n.After == nil {
			v.dropNode(n.Before)
			continue
		}
		v.setNode(n.After)
	}
	for _, p := range c.Pods {
		if p.After != nil {
			v.recountAs(p.After.UID, p.After)
		} else {
			v.recountAs(p.Before.UID, nil)
			if _, _, claimed := v.ledger.Plans().Victim(p.Before.UID); claimed || v.fates.every {
				v.miss(p.Before.UID, p.DeletedRV)
			}
		}
	}
	for uid := range v.unknown {
		v.recount(uid)
	}
}

// ApplyLedger recounts the pods whose entries changed, and rechecks the nodes whose documents changed.
func (v *View) ApplyLedger(c replica.Changes) {
	for _, uid := range c.PodUIDs {
		v.recount(uid)
	}
	for i := range c.Docs {
		for _, name := range []string{c.Docs[i].Before.NodeName, c.Docs[i].After.NodeName} {
			v.doubtName(name)
		}
		for _, uid := range append(placeholdersOf(c.Docs[i].Before), placeholdersOf(c.Docs[i].After)...) {
			v.recount(uid)
		}
	}
	for _, name := range c.Names {
		v.doubtName(name)
	}
	if c.Floor {
		for _, s := range v.byUID {
			v.doubt(s)
		}
	}
}

// doubtName makes Settle recheck the node of a name.
func (v *View) doubtName(name string) {
	if s, ok := v.slots[name]; ok && s.placed {
		v.doubt(s)
	}
}

// Stage counts a pod on a node before the ledger contains its reservation. The pod must not count anywhere else.
func (v *View) Stage(p *state.Pod, nodeName string) {
	v.staged[p.UID] = stagedPod{node: nodeName, pod: p}
	v.recount(p.UID)
}

// Unstage reverts Stage; if the ledger view has a reservation for the pod by then, that counts instead.
func (v *View) Unstage(podUID string) {
	st := v.staged[podUID]
	delete(v.staged, podUID)
	v.recount(podUID)
	v.giveBack(st.instead)
}

// IsStaged reports whether the pod is staged.
func (v *View) IsStaged(podUID string) bool {
	_, ok := v.staged[podUID]
	return ok
}

// Nodes returns the nodes that exist, each with what counts on it. The slice and the NodeInfos belong to the View:
// read them before the next call that changes it.
func (v *View) Nodes() []*state.NodeInfo { return v.nodes }

// NodesVersion changes when a node appears, disappears or is replaced under its name.
func (v *View) NodesVersion() uint64 { return v.nodesVersion }

// Counted iterates over the UIDs of the pods that count somewhere, in no order; a placeholder
// counts under a UID that no object has.
func (v *View) Counted() iter.Seq[string] { return maps.Keys(v.tally.counted) }

// Sizes returns how many nodes exist, how many pods count on nodes, and how many of those are only reserved or
// staged.
func (v *View) Sizes() (nodes, pods, reserved int) {
	return len(v.nodes), len(v.tally.counted), v.tally.reserved
}

// Pod returns a pod of the API view.
func (v *View) Pod(uid string) (*state.Pod, bool) { return v.snapshot.Pod(uid) }

// Snapshot returns the API view as last applied.
func (v *View) Snapshot() *state.Snapshot { return v.snapshot }

// Node returns the node with a UID and what counts on it; false while the facts do not show it.
func (v *View) Node(uid string) (*state.NodeInfo, bool) {
	s, ok := v.byUID[uid]
	if !ok {
		return nil, false
	}
	return s.info, true
}

// Uncounted lists the nodes on which there may be pods that this View does not count, or counts without knowing
// what they are: their high-water is not reached, or a reserved pod is not described. elsewhere reports that there
// may be such pods on nodes that the facts do not show yet, whatever their labels, or that there are some on nodes
// that seem gone (HasPodsOnUnknownNodes). Both are empty most of the time, and then cheap to determine. A caller
// that relies on a count over a domain must not have one of these nodes in the domain: the ledger view includes
// placements that are missing from the count.
func (v *View) Uncounted() (nodes []*state.NodeInfo, elsewhere bool) {
	pods, podsKnown := v.store.Position().Progress(events.KindPod)
	seen, nodesKnown := v.store.Position().Progress(events.KindNode)
	if !podsKnown || !nodesKnown {
		return v.nodes, true
	}
	if v.HasPodsOnUnknownNodes() {
		return nil, true
	}
	if v.tally.undescribed == 0 && pods >= v.ledger.HighWater(ledger.KindPod) &&
		seen >= v.ledger.HighWater(ledger.KindNode) {
		return nil, false
	}
	for _, n := range v.nodes {
		doc := v.ledger.Open(n.Node.UID, n.Node.Name, 0)
		if n.UndescribedPods() > 0 || pods < doc.HighWater(ledger.KindPod) || seen < doc.HighWater(ledger.KindNode) {
			nodes = append(nodes, n)
		}
	}
	for doc := range v.ledger.Docs() {
		if _, known := v.byUID[doc.NodeUID]; !known && seen < doc.HW[ledger.KindNode] {
			return nodes, true
		}
	}
	return nodes, false
}

// PodFact serves txns.Finish: it returns what the API view shows of a pod.
func (v *View) PodFact(podUID string) (boundRV uint64, bound, known bool) {
	p, ok := v.snapshot.Pod(podUID)
	if !ok {
		return 0, false, false
	}
	return p.ResourceVersion, p.NodeName != "", true
}

// PodProgress serves txns.Finish: the applied progress of pods, 0 while undefined.
func (v *View) PodProgress() uint64 {
	rv, ok := v.store.Position().Progress(events.KindPod)
	if !ok {
		return 0
	}
	return rv
}

// ClaimFact serves txns.Finish: it returns what the API view shows of a claim to devices.
func (v *View) ClaimFact(namespace, name string) txns.DeviceClaimFact {
	return ClaimFact(v.snapshot, namespace, name)
}

// ClaimProgress serves txns.Finish: the applied progress of claims to devices, 0 while undefined.
func (v *View) ClaimProgress() uint64 {
	rv, ok := v.store.Position().Progress(events.KindResourceClaim)
	if !ok {
		return 0
	}
	return rv
}

func (v *View) setNode(n *state.Node) {
	s := v.slot(n.Name)
	if old := s.info.Node; old == nil || old.UID != n.UID {
		v.nodesVersion++
		if old != nil {
			delete(v.byUID, old.UID)
		}
	}
	s.info.SetNode(n)
	v.byUID[n.UID] = s
	if !s.placed {
		s.placed, s.usable = true, true
		v.insert(s.info)
	}
	v.follower.SetNode(s.info)
	v.doubt(s)
}

// insert keeps nodes in name order: a stable order makes decisions replayable.
func (v *View) insert(info *state.NodeInfo) {
	i, _ := slices.BinarySearchFunc(v.nodes, info, byName)
	v.nodes = slices.Insert(v.nodes, i, info)
}

func byName(a, b *state.NodeInfo) int { return strings.Compare(a.Node.Name, b.Node.Name) }

func (v *View) dropNode(n *state.Node) {
	s, ok := v.byUID[n.UID]
	if !ok {
		return
	}
	delete(v.byUID, n.UID)
	if i, found := slices.BinarySearchFunc(v.nodes, s.info, byName); found {
		v.nodes = slices.Delete(v.nodes, i, i+1)
	}
	s.placed = false
	v.nodesVersion++
	v.follower.DropNode(s.info)
	s.info.SetNode(nil)
	for p := range s.info.Pods() {
		if c, counted := v.tally.counted[p.UID]; counted && c.slot == s {
			v.noteUnknownNode(p.UID, c)
		}
	}
	v.forget(s)
}

// forget drops a slot that neither a node nor a pod needs.
func (v *View) forget(s *slot) {
	if !s.placed && s.info.PodCount() == 0 {
		delete(v.slots, s.name)
	}
}

func (v *View) slot(name string) *slot {
	s, ok := v.slots[name]
	if !ok {
		s = &slot{name: name, info: state.NewNodeInfo(nil)}
		v.slots[name] = s
	}
	return s
}

// place is the counting rule: it returns the node's name and the pod to count there, or nil. pod is the snapshot's,
// nil if it has none.
func (v *View) place(uid string, pod *state.Pod) (string, *state.Pod) {
	delete(v.unknown, uid)
	if strings.HasPrefix(uid, placeholderPrefix) {
		return v.placeholder(uid)
	}
	known := pod != nil
	if known && pod.NodeName != "" {
		if pod.Terminal {
			return "", nil
		}
		return pod.NodeName, pod
	}
	if doc, entry, ok := v.ledger.Entry(uid); ok {
		return v.placeReserved(pod, doc, entry)
	}
	st, ok := v.staged[uid]
	switch {
	case !ok, !known && v.PodProgress() >= st.pod.ResourceVersion && v.PodProgress() > 0:
		return "", nil // nothing staged, or deleted since it was staged
	case known:
		return st.node, pod
	default:
		return st.node, st.pod
	}
}

// placeReserved is the counting rule for a pod with a reservation; pod is nil if it is not known.
func (v *View) placeReserved(pod *state.Pod, doc ledger.NodeDoc, entry ledger.Entry) (string, *state.Pod) {
	if pod != nil && pod.ResourceVersion >= entry.PodRV {
		return doc.NodeName, pod
	}
	if progress, ok := v.store.Position().Progress(events.KindPod); ok && progress >= entry.PodRV {
		if pod == nil {
			return "", nil
		}
		return doc.NodeName, pod
	}
	// The pod is not known, or only in a version older than the one that the reservation was decided on: its labels
	// and terms may have been different. Until the facts catch up it counts as the entry describes it.
	v.unknown[entry.PodUID] = struct{}{}
	now, ok := v.tally.counted[entry.PodUID]
	if ok && now.slot.name == doc.NodeName && unbound(now.pod) == 1 && now.pod.ResourceVersion >= entry.PodRV {
		return doc.NodeName, now.pod
	}
	return doc.NodeName, podOfEntry(entry)
}

// podOfEntry returns the pod as far as its reservation describes it.
func podOfEntry(e ledger.Entry) *state.Pod {
	p := &state.Pod{
		UID: e.PodUID, Namespace: e.Namespace, Name: e.Name,
		ResourceVersion: e.PodRV, Priority: e.Priority, SchedulerName: e.SchedulerName,
		Requests: resources.FromMap(e.Requests),
	}
	p.NonZero = p.Requests
	p.NonZero.MilliCPU, p.NonZero.Memory = e.NonZeroCPU, e.NonZeroMemory
	for _, port := range e.Ports {
		p.Ports = append(p.Ports, state.HostPort{IP: port.IP, Protocol: port.Protocol, Port: port.Port})
	}
	return p
}
