package gang

// The size of the largest cluster. States are values, so everything has a fixed size.
const (
	maxPods  = 6
	maxNodes = 2
	maxGangs = 2
	shards   = 2
)

// scenario is a cluster to explore, and limits how often each event may happen.
type scenario struct {
	// capacity of each node.
	capacity []int
	pods     []spec
	// gangs in their order: an earlier one is more important.
	gangs []gangSpec
	limits
	// late: between the moment of a picture and its arrival at the shard anything may happen. Otherwise a shard always
	// reads the ledger as it is, after any time without.
	late bool
	// mayEndEarly: at the end a gang may be left that would fit, because more attempts can fail than there are.
	mayEndEarly bool
}

// spec is a pod.
type spec struct {
	name byte
	// gang is the gang (1 is the first) of which it is a member, 0 for none.
	gang uint8
	// priority decides who displaces and preempts whom. For a member it is that of its gang.
	priority int
	// shard places the pod if it belongs to no gang.
	shard int
	// runs is the node (1 is the first) on which it runs from the start, 0 for none.
	runs uint8
	// unit, if not 0, has the pods that may only be evicted together.
	unit uint8
	// foreign: another scheduler binds it, to the first node, regardless of capacity.
	foreign bool
}

// gangSpec is a gang: min of its members have to be placed for any to run.
type gangSpec struct {
	name     byte
	min      int
	priority int
	// shard owns the gang's partition at the start.
	shard uint8
	// whole: all members fit in one transaction. That needs no record.
	whole bool
}

// limits are how often things happen. What is not limited here happens as often as it can.
type limits struct {
	// attempts are those of each gang.
	attempts [maxGangs]uint8
	// timeouts are attempts aborted by any member, for any reason.
	timeouts uint8
	// takeovers are moves of a gang's partition to the other shard.
	takeovers uint8
	// answers are documents that a shard learns of from an answer, ahead of its watch.
	answers uint8
	// fences are reservations of members taken back.
	fences uint8
	// drops are records deleted.
	drops uint8
}

// world is a state: the ledger, what each shard has read of it, and the pods.
type world struct {
	now    picture
	shards [shards]picture
	// coming is the next picture for each shard, if sent.
	coming [shards]picture
	sent   [shards]bool
	pods   [maxPods]pod
	// made is how many attempts each gang has had; parked: its last attempt yielded to a gang that is earlier.
	made      [maxGangs]uint8
	parked    [maxGangs]bool
	left      limits
	violation violation
}

// picture is the ledger as one shard has read it, or (world.now) as it is.
type picture struct {
	docs    [maxNodes]doc
	records [maxGangs]record
	// epochs count the owners of each gang's partition.
	epochs [maxGangs]uint8
	// ahead are the documents (bits) that are newer than the revision that the watch has reached.
	ahead uint8
}

// doc is the document of a node, record the record of a gang. Of revisions only equality matters.
type doc struct {
	revision uint8
	entries  [maxPods]entry
}

type record struct {
	revision uint8
	state    recordState
	attempt  uint8
}

type recordState uint8

const (
	absent recordState = iota
	forming
	ready
	recordCommitted
	aborted
)

// live reports whether pledges of the attempt count, and it may still be committed.
func (r record) live() bool { return r.state == forming || r.state == ready }

// entry is the entry of one pod in a node's document: a reservation, or a claim on a victim.
type entry struct {
	state entryState
	// attempt is that of the gang that made it, 0 for none.
	attempt uint8
	// by is the plan of a claim: see plan.
	by plan
	// version is the pod's version that the decision used.
	version uint8
}

type entryState uint8

const (
	none entryState = iota
	held
	pledged
	committed
	claimed
	marked
)

// plan is the owner of claims: gang g has 1 + g, pod p that belongs to none 1 + maxGangs + p. All places of a gang
// have one plan.
type plan uint8

func (m *model) planOf(p int) plan {
	if g := m.pods[p].gang; g != 0 {
		return plan(g)
	}
	return plan(1 + maxGangs + p)
}

// stranger stands for the plan of an attempt that a picture's record does not name: one's own of earlier, or another.
const stranger plan = 1 + maxGangs + maxPods

// gang returns the gang that has the plan, -1 for none.
func (o plan) gang() int {
	if o <= maxGangs {
		return int(o) - 1
	}
	return -1
}

// pod is a pod at the API server. All shards know at once what happens to it.
type pod struct {
	// node is where it runs or is bound (1 is the first), 0 for nowhere.
	node uint8
	gone bool
	// version moves when a fence changes the pod: binds decided on an earlier one fail.
	version uint8
	// asked are the nodes (bits) to which a binder may bind it, now or at any later time: some picture of the ledger
	// shows that it may.
	asked uint8
	// pledged are the attempts (bits) in which it was pledged to each node. Only ablations look at it.
	pledged [maxNodes]uint8
}

func (p pod) pending() bool { return p.node == 0 && !p.gone }
func (p pod) on(n int) bool { return !p.gone && int(p.node) == n+1 }

// violation is a violation, noticed as it happens.
type violation uint8

const (
	nothing violation = iota
	tooFew
	inPart
	unreserved
	prematurely
	split
	blindly
	gaveWay
)

func (v violation) String() string {
	switch v {
	case tooFew:
		return "a gang was committed with fewer members than it needs"
	case inPart:
		return "a part of a gang was placed that is too small to run"
	case unreserved:
		return "a pod was bound without a committed reservation"
	case prematurely:
		return "a victim was marked for a gang that has no place for all that it needs"
	case split:
		return "a victim was marked without the others of its unit"
	case blindly:
		return "a member was pledged to a node that is known to be full"
	case gaveWay:
		return "a gang gave way to one that is later"
	}
	return ""
}
