package ledger

import (
	"fmt"
	"strconv"
	"time"
)

// Token identifies one attempt to place one pod. It is random and never reused; 0 means none.
type Token uint64

// String returns the 16 hex digits used in annotations, messages and logs.
func (t Token) String() string { return fmt.Sprintf("%016x", uint64(t)) }

// ParseToken parses what String writes.
func ParseToken(s string) (Token, error) {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, fmt.Errorf("ledger: token %q: want 16 hex digits", s)
	}
	return Token(v), nil
}

// Role is the purpose of an entry.
type Role uint8

const (
	// RoleReservation holds a place for a pod.
	RoleReservation Role = iota + 1
	// RoleVictim claims a running pod as a victim of a plan.
	RoleVictim
	// RoleKeeper pins a running pod that a placement relies on.
	RoleKeeper
	// RoleMove holds a place for the replacement of a pod that is being moved.
	RoleMove
)

// State is the state of a reservation, or of a victim claim (0 or Evicting).
type State uint8

const (
	// Held waits for victims, or for plugins that have work to do before the bind. A Held reservation is never
	// bound and can be displaced.
	Held State = iota + 1
	// Committed may be bound; only a fence takes it back.
	Committed
	// Fencing is in the process of being taken back.
	Fencing
	// Evicting is a victim claim whose eviction may have been sent. It stays until the victim is gone, or until the
	// eviction has certainly failed.
	Evicting
)

// FenceCause is the reason why a reservation is taken back.
type FenceCause uint8

const (
	// FenceByNode: its node is gone, or would not accept the pod any more.
	FenceByNode FenceCause = iota + 1
	// FenceByPod: the pod changed, has gates, has ended or is terminating, or is bound to another node.
	FenceByPod
	// FenceByClaims: its volumes or devices could not be obtained, or not in time.
	FenceByClaims
	// FenceByBind: the bind was refused, or did not succeed in time.
	FenceByBind
	// FenceByWant: its place was wanted for a pod of higher priority.
	FenceByWant
)

// HostPort is one port of the node that a pod occupies. IP "" and Protocol "" have been normalised to "0.0.0.0" and
// "TCP".
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
	// PodRV is the pod's resourceVersion that the decision used: the bind's precondition.
	PodRV uint64
	// PlacementHash is state.Pod.PlacementHash of that version: any other version with the same hash may be bound as
	// well. It is 0 if it is not known, as in entries that members of versions without the field have written.
	PlacementHash uint64
	Token         Token
	// Shard is the member that made the entry. On a claim that is Evicting, it is the member that sends the
	// evictions.
	Shard string
	// SchedulerName is the pod's profile, so that any binder can report under that scheduler's name.
	SchedulerName string
	// Requests by resource name, in the scheduler's units: cpu in milli-CPU, every other resource in its own unit.
	Requests map[string]int64
	// NonZeroCPU and NonZeroMemory are the requests used for scoring (with defaults filled in).
	NonZeroCPU, NonZeroMemory int64
	Ports                     []HostPort
	// GroupPartition is 1 + the pod partition of the pod's group (state.Pod.Group), and 0 for a pod without a
	// group: see Partition.
	GroupPartition int32
	// Gang would refer to gang/<uid>; no member sets it so far. Plan is the ID shared by a hold or a placeholder,
	// its victims and their budget claims: see PlanID. Each is empty if there is none.
	Gang, Plan string
	// Wanted asks the binders to give the entry back (to finish or fence it).
	Wanted bool
	// Delegated, on a reservation, means that a plugin of the shard that made it binds the pod. Binders leave the
	// bind to that plugin until the shard reports otherwise, at most for one and a half times DelegatedFor.
	Delegated bool
	// Cause, on a reservation that is Fencing, is the reason. It is 0 if it is not known, as from members that do
	// not write it; a later version may define more causes.
	Cause FenceCause
	// Dependents of a keeper pin are the placed pods that rely on this one.
	Dependents []Dependent
	// Budgets of a victim claim are the UIDs of the disruption budgets that it is charged to.
	Budgets []string
	// NotAfter of a victim claim is the time after which its eviction is not begun any more, by the clock of the
	// member that sends it. It has millisecond precision. It is zero if only the plan determines how long the
	// eviction is wanted, as with preemptions and in claims that earlier versions have written.
	NotAfter time.Time
	// Declined, on a victim claim, means that its eviction could only be requested (state.Pod.EvictsByRequest), and that
	// no controller has carried the request out. For as long as the pod is such a one, it is not requested again for
	// this claim. Claims that earlier versions have written do not have it.
	Declined bool
	// Replacement of a move placeholder describes the pod that the place is for.
	Replacement Replacement
	// Volumes of a reservation are the steps that the pod's claims need before it is bound.
	Volumes []VolumePick
	// Devices of a reservation are the device claims that the pod will use, and their allocations.
	Devices []DevicePick
	// Later holds fields that a later version has written, as stored. A member that rewrites the entry keeps them.
	// Other values have the same field.
	Later string
}

// VolumePick is a claim in the pod's namespace that has no volume yet, or that only one pod may use.
type VolumePick struct {
	// Volume is the volume that the claim gets. It is empty if one must be provisioned on the entry's node, and if
	// HasVolume.
	Claim, Volume string
	// ClaimUID is the UID of the claim that the decision is about. A pod refers to the claim by name, and a claim
	// that is deleted and created again is another one. It is empty from members that do not write it.
	ClaimUID string
	// HasVolume reports that the claim already has its volume and needs no further step. The pod is bound if the
	// claim is still the one of ClaimUID.
	HasVolume bool
	Later     string
}

// DevicePick is a claim to devices, in the pod's namespace, that has to be written before the pod is bound.
type DevicePick struct {
	// ClaimUID is empty, and ClaimRV 0, if the claim has yet to be created.
	Claim, ClaimUID string
	// ClaimRV is the claim's resourceVersion that the decision used. The member that writes the allocation into the
	// claim writes it on this version or not at all. Only this check shows that it is too late.
	ClaimRV uint64
	// Allocation is the protobuf of the resource.k8s.io/v1 AllocationResult that the claim gets. It is empty if the
	// claim is allocated already, and the pod only becomes one of its users.
	Allocation []byte
	// Spec is the protobuf of the resource.k8s.io/v1 ResourceClaimSpec of a claim that is created for resources of
	// the pod. PodStatus is that of the v1 PodExtendedResourceClaimStatus that names this claim in the pod's
	// status. Both are empty for a claim that the pod names.
	Spec, PodStatus []byte
	// ConfigHashes are the hashes of the drivers' opaque parameters that Allocation leaves out: one for each of its
	// configurations, in their order, empty for one that is included. Nil if Allocation includes all of them.
	ConfigHashes [][]byte
	Later        string
}

// Unmade reports whether the claim has yet to be created.
func (p DevicePick) Unmade() bool { return p.ClaimUID == "" && len(p.Spec) > 0 }

// Replacement describes the pod that will replace one that is moved, before it exists. It is in the namespace of
// the moved pod (Entry.Namespace of the placeholder), because a pod's author can set any owner UID.
type Replacement struct {
	// Owner is the UID of the controller that creates the replacement, Template a hash of the pod that it creates.
	Owner, Template string
}

// NodeDoc is the ledger's document of one node, at one revision.
type NodeDoc struct {
	NodeUID, NodeName string
	// HW is the resourceVersion high-water per kind of fact ("pod", "resourceclaim"). A member whose applied
	// progress of that kind is below it must not use the node.
	HW      map[string]uint64
	Entries []Entry
	// Revision is the mod revision the document was read at; 0 when it does not exist. In that case Floor is the
	// revision of the Floor under which its absence was read.
	Revision, Floor int64
	// SupersededBy is the UID of the node that the node name has stood for since; empty if there is none. Nothing
	// is added to a superseded document.
	SupersededBy string
	Later        string
	// Older is the document of the node that had the name before, if it still holds anything; it links in turn to
	// the one before it. A View sets it, and it is not stored.
	Older *NodeDoc
}

// MaxEntries and MaxDocBytes bound a document; a node whose document would exceed them is full.
const (
	MaxEntries  = 256
	MaxDocBytes = 64 << 10
)

// NotAfterMillis returns NotAfter in milliseconds; 0 for the zero time, and for times that are not after 1970.
func (e *Entry) NotAfterMillis() int64 {
	if e.NotAfter.IsZero() {
		return 0
	}
	return max(e.NotAfter.UnixMilli(), 0)
}
