package ledger

import (
	"fmt"
	"strconv"
	"time"
)

// Token identifies one attempt to place one pod; random, never reused, 0 is none.
type Token uint64

// String is the 16 hex digits used in annotations, messages and logs.
func (t Token) String() string { return fmt.Sprintf("%016x", uint64(t)) }

// ParseToken reads what String writes.
func ParseToken(s string) (Token, error) {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, fmt.Errorf("ledger: token %q: want 16 hex digits", s)
	}
	return Token(v), nil
}

// Role says what an entry stands for.
type Role uint8

const (
	// RoleReservation holds a place for a pod.
	RoleReservation Role = iota + 1
	// RoleVictim claims a running pod as a victim of a plan.
	RoleVictim
	// RoleKeeper pins a running pod that a placement relies on.
	RoleKeeper
	// RoleMove holds a place for the replacement of a pod that is to be moved.
	RoleMove
)

// State of a reservation, or of a victim claim (0 or Evicting).
type State uint8

const (
	// Held waits for victims, a gang or a prebind; it is never bound and can be displaced.
	Held State = iota + 1
	// Committed may be bound; it is taken back only by a fence.
	Committed
	// Fencing is being taken back.
	Fencing
	// Evicting is a victim claim whose eviction may have been sent: it stays until the
	// victim is gone, or until the eviction has surely failed.
	Evicting
)

// FenceCause says what a reservation is taken back about.
type FenceCause uint8

const (
	// FenceByNode: its node is gone, or would not take the pod any more.
	FenceByNode FenceCause = iota + 1
	// FenceByPod: the pod changed, has gates, has ended or leaves, or is bound elsewhere.
	FenceByPod
	// FenceByClaims: its volumes or devices could not be had, or not in time.
	FenceByClaims
	// FenceByBind: the bind was refused, or did not succeed in time.
	FenceByBind
	// FenceByWant: its place was wanted for a more important pod.
	FenceByWant
)

// HostPort is one port of the node's that a pod occupies. IP "" and Protocol "" have
// been normalised to "0.0.0.0" and "TCP".
type HostPort struct {
	IP, Protocol string
	Port         int32
}

// Entry is one promise about one pod on one node.
//
//nolint:structsize // one field of the stored value each, as in ledgerpb; grouping would only rename them
type Entry struct {
	PodUID, Namespace, Name string
	Role                    Role
	State                   State
	Priority                int32
	// PodRV is the pod's resourceVersion the decision used: the bind's precondition.
	PodRV uint64
	// Wish is state.Pod.Wish of that version: another version with the same wish may be bound
	// as well. 0: not known, as in what members have written that did not have it.
	Wish  uint64
	Token Token
	// Shard is the member that made the entry; of a claim that is Evicting, the one that sends
	// the evictions.
	Shard string
	// SchedulerName is the pod's profile, so that any binder can report in its name.
	SchedulerName string
	// Requests by resource name, in the unit of the scheduler's arithmetic: cpu in
	// milli-CPU, all else in the resource's own unit.
	Requests map[string]int64
	// NonZeroCPU and NonZeroMemory are the requests for scoring (defaults filled in).
	NonZeroCPU, NonZeroMemory int64
	Ports                     []HostPort
	// GroupPartition is 1 + the pod partition of the pod's group (state.Pod.Group), 0 for a pod
	// that has none: see Partition.
	GroupPartition int32
	// Gang refers to gang/<uid>. Plan is what a hold or a placeholder, its victims and their
	// claims have in common: see PlanID. Empty without one.
	Gang, Plan string
	// Wanted asks the binders to give the entry back (finish or fence it).
	Wanted bool
	// Delegated, of a reservation: a plugin of the shard that made it binds the pod. Binders leave that to it until the
	// shard says otherwise, at most as long as DelegatedFor and half of it.
	Delegated bool
	// Cause, of a reservation that is Fencing: what about. 0: not known, as from members that do not
	// say so; a later version may know more of them.
	Cause FenceCause
	// Dependents of a keeper pin: the placed pods that rely on this one.
	Dependents []Dependent
	// Budgets of a victim claim: the UIDs of the disruption budgets it is claimed from.
	Budgets []string
	// NotAfter of a victim claim: its eviction is not begun any more after that, by the clock of the member that sends
	// it. To the millisecond; zero if the plan alone says how long it is wanted, as with preemptions and in what
	// earlier versions have written.
	NotAfter time.Time
	// Replacement of a move placeholder: the pod it is for.
	Replacement Replacement
	// Volumes of a reservation: what has to be done about the pod's claims before it is bound.
	Volumes []VolumePick
	// Devices of a reservation: the claims to devices that the pod is to use, and what they get.
	Devices []DevicePick
	// Later are fields that a later version has written, as stored: who writes the entry again keeps
	// them. The same in other values.
	Later string
}

// VolumePick is a claim in the pod's namespace that has no volume yet, or that only one pod may use.
type VolumePick struct {
	// Volume is the one that the claim gets; empty if one is to be made for it on the entry's node, and if HasVolume.
	Claim, Volume string
	// ClaimUID is that of the claim which the decision is about: the pod names the claim by name, and a claim that is
	// deleted and made again is another one. Empty from members that do not say so.
	ClaimUID string
	// HasVolume: the claim has its volume, and nothing is to be done about it. The pod is bound if the claim is still
	// the one of ClaimUID.
	HasVolume bool
	Later     string
}

// DevicePick is a claim to devices, in the pod's namespace, that has to be written before the pod
// is bound.
type DevicePick struct {
	// ClaimUID is empty, and ClaimRV 0, of a claim that has yet to be made.
	Claim, ClaimUID string
	// ClaimRV is the claim's resourceVersion the decision used. Who gives the claim its devices
	// writes this version of it or none: that, and nothing else, tells when it is too late.
	ClaimRV uint64
	// Allocation is the protobuf of the resource.k8s.io/v1 AllocationResult that the claim gets;
	// empty if it has its devices already, and the pod only becomes one of its users.
	Allocation []byte
	// Spec is the protobuf of the resource.k8s.io/v1 ResourceClaimSpec of a claim that is made for resources
	// of the pod, PodStatus that of the v1 PodExtendedResourceClaimStatus that tells the pod of it; empty for
	// a claim that the pod names.
	Spec, PodStatus []byte
	// ConfigHashes are the hashes of the opaque parameters of drivers that Allocation leaves out, one for
	// each of its configurations in their order; empty for one that it has. Nil if it has all of them.
	ConfigHashes [][]byte
	Later        string
}

// Unmade tells whether the claim has yet to be made.
func (p DevicePick) Unmade() bool { return p.ClaimUID == "" && len(p.Spec) > 0 }

// Replacement names the pod that will stand for one that is moved, before it exists. It is in that one's namespace
// (Entry.Namespace of the placeholder): the pod's author can set any owner UID.
type Replacement struct {
	// Owner is the UID of the controller that makes it, Template a hash of what it makes.
	Owner, Template string
}

// NodeDoc is the ledger's document of one node, at one revision.
type NodeDoc struct {
	NodeUID, NodeName string
	// HW is the resourceVersion high-water per kind of fact ("pod", "resourceclaim"): a member whose
	// applied progress of that kind is below it must not use the node.
	HW      map[string]uint64
	Entries []Entry
	// Revision is the mod revision the document was read at; 0 when it does not exist. Floor is
	// then the revision of the Floor under which it did not.
	Revision, Floor int64
	// SupersededBy is the UID of the node that the node name stands for since; empty for none.
	// Nothing is added to a superseded document.
	SupersededBy string
	Later        string
	// Older is the document of a node that had the name before, if that still says something, and has
	// the one before it. A View sets it, and it is not stored.
	Older *NodeDoc
}

// MaxEntries and MaxDocBytes bound a document; a node that would pass them is full.
const (
	MaxEntries  = 256
	MaxDocBytes = 64 << 10
)
