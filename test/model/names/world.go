package names

const (
	maxUIDs   = 4 // nodes that have the name, one after the other, by number from 1; 0 is none
	maxPods   = 3
	maxShards = 2
)

// The keys of the ledger, as bits: a document for each UID, and these.
const (
	incarnationKey = 0
	floorKey       = maxUIDs
)

// doc is the document of a node.
type doc struct {
	exists bool
	// entries are the pods with a reservation, as bits.
	entries uint8
	// pods and node are the high-waters of these kinds.
	pods, node uint8
	// superseded: the name belongs to another node now.
	superseded bool
}

// ledger is the state of the ledger for one name.
type ledger struct {
	docs [maxUIDs]doc // docs[0] is not used
	// incarnation is the UID of the name's present node. A later node has a higher number, which is its
	// resourceVersion too.
	incarnation uint8
	// collected: there is a floor, with this high-water of pods.
	collected bool
	floorPods uint8
}

// shard is one shard, with its delayed view.
type shard struct {
	// node has the name, by its facts; progress is that of its facts about pods.
	node, progress uint8
	// read is the ledger as the shard has read it, moved are the keys written since.
	read  ledger
	moved uint8
	// gone are the documents it has read that were collected since.
	gone uint8
	// ahead are the documents that it knows from a refused transaction, not from its watch, and that were created
	// after the revision it had read.
	ahead uint8
}

// world is everything.
type world struct {
	ledger
	shards [maxShards]shard
	// node has the name.
	node uint8
	// bound is when each pod was bound to the name, 0 for not: the first, the second. Rev is how many
	// were.
	bound [maxPods]uint8
	rev   uint8
	left  limits
}

// limits are how often things happen that would not end by themselves.
type limits struct{ placements, fences, registrations, collections uint8 }

// scenario is a cluster: the shard of each pod, and the events that may happen.
type scenario struct {
	owner []int
	// before: the ledger begins as members of before incarnations have left it. Each shard knows another
	// node by the name, and both nodes have documents; the first has a reservation.
	before bool
	limits
}

func pod(p int) uint8 { return 1 << p }

// wrote marks keys as changed in every shard's view, except that of the shard that wrote them.
func (w *world) wrote(by int, keys uint8) {
	for i := range w.shards {
		s := &w.shards[i]
		if i != by {
			s.moved |= keys
			continue
		}
		s.know(&w.ledger, keys)
	}
}

// know updates keys to their present state.
func (s *shard) know(now *ledger, keys uint8) {
	s.moved, s.gone = s.moved&^keys, s.gone&^keys
	for uid := 1; uid < maxUIDs; uid++ {
		if keys>>uid&1 == 1 {
			s.read.docs[uid] = now.docs[uid]
		}
	}
	if keys>>incarnationKey&1 == 1 {
		s.read.incarnation = now.incarnation
	}
	if keys>>floorKey&1 == 1 {
		s.read.collected, s.read.floorPods = now.collected, now.floorPods
	}
}

// has reports whether a key exists.
func (l *ledger) has(key int) bool {
	switch key {
	case incarnationKey:
		return l.incarnation != 0
	case floorKey:
		return l.collected
	}
	return l.docs[key].exists
}

// same reports whether a key is at the revision that a shard has read: not written since, or absent
// then and now.
func (w *world) same(s *shard, key int) bool {
	return s.moved>>key&1 == 0 || !s.read.has(key) && !w.has(key)
}

// lost is a shard's update after a refused transaction: it gets the present documents. The incarnation and the floor
// cover all documents of the name, and only the watch delivers those. The same holds for a document that did not
// exist before: its node may have been admitted again, after another.
func (m *model) lost(w *world, i int, keys uint8) {
	if !m.without("incarnations read from the watch alone") {
		keys &^= 1 << incarnationKey
	}
	if !m.without("the floor read from the watch alone") {
		keys &^= 1 << floorKey
	}
	s := &w.shards[i]
	created := keys & w.stored() &^ (s.read.stored() &^ s.gone)
	s.know(&w.ledger, keys)
	if !m.without("new documents read from the watch before they are used") {
		s.ahead |= created
	}
}
