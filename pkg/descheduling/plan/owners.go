package plan

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/state"
)

// owners guards what owns the pods: how many of them go, and when.
type owners struct {
	*Input
	// crowds are the pods of each owner, made when first needed; going how many of an owner's
	// the plan and earlier ones take; rolling says what is known of rollouts.
	crowds  map[ownerID]*crowd
	going   map[ownerID]int
	rolling map[ownerID]bool
	// back is when a replacement was made last that came back, by owner.
	back map[ownerID]time.Time
	// active are the controllers of ReplicaSets that want pods, by how many want some.
	active map[ownerID]int
}

// ownerID names an owner of pods: an object of their namespace. The UID alone would not do: the maker of a pod
// writes its references and may copy the UID of another namespace's object.
type ownerID struct{ namespace, uid string }

// crowd is the pods of one owner that have not ended, and when the youngest was made, ended or not.
type crowd struct {
	// pods are those that have not ended, staying those of them that do not terminate either.
	pods, staying, unready int
	youngest               time.Time
}

func newOwners(in *Input) *owners {
	return &owners{Input: in, going: map[ownerID]int{}, rolling: map[ownerID]bool{}}
}

// ownerOf is a pod's controller; the zero value if it has none.
func ownerOf(pod *state.Pod) ownerID { return ownerIn(pod.Namespace, view.OwnerOf(pod)) }

// ownerIn is the owner with a UID in a namespace; the zero value without a UID.
func ownerIn(namespace, uid string) ownerID {
	if uid == "" {
		return ownerID{}
	}
	return ownerID{namespace, uid}
}

// refuse says why no pod of an owner may go now. A pod without one has only its namespace
// against it.
func (o *owners) refuse(pod *state.Pod, owner ownerID) descheduling.Refusal {
	b := &o.Policy.Berth
	if slices.Contains(b.ExcludeNamespaces, pod.Namespace) {
		return ExcludedNamespace
	}
	if owner == (ownerID{}) {
		return ""
	}
	past := o.History.owners[owner]
	switch {
	case past.resting(b, o.Now):
		return OwnerCoolingDown
	case b.Cooldown > 0 && past.refusing(o.Now):
		return OwnerRefused
	case o.Now.Sub(o.back[owner]) < b.MaxCooldown:
		return OwnerReturned
	case o.underWay(owner) >= b.AtOnce(o.crowdOf(owner).pods):
		return OwnerBusy
	case b.Cooldown > 0 && o.History.asking(owner, o.Now):
		return OwnerCoolingDown // its round has not ended
	case b.PauseDuringRollout && o.rollingOut(owner):
		return RollingOut
	case o.surplus(owner):
		return Surplus
	case b.WaitForReady && past.recent(b, o.Now) && o.crowdOf(owner).unready > 0:
		return ReplacementUnready
	default:
		return ""
	}
}

// returns are the pods that came back, and notes their owners. It costs a look at all pods if
// any were evicted not long ago.
func (o *owners) returns() (back []*state.Pod) {
	o.back = map[ownerID]time.Time{}
	if len(o.History.owners) == 0 {
		return nil
	}
	for p := range o.Cluster.Pods() {
		owner := ownerOf(p)
		if owner == (ownerID{}) || p.NodeName == "" || p.Terminal || p.Deleting {
			continue
		}
		made := p.Created().Time
		if !o.History.owners[owner].cameBack(p.NodeName, made) {
			continue
		}
		back = append(back, p)
		if made.After(o.back[owner]) {
			o.back[owner] = made
		}
	}
	return back
}

func (o *owners) take(owner ownerID) {
	if owner != (ownerID{}) {
		o.going[owner] = o.underWay(owner) + 1
	}
}

// underWay is how many pods of an owner are going: those of the plan, and those asked for
// before that still are there.
func (o *owners) underWay(owner ownerID) int {
	n, known := o.going[owner]
	if !known {
		n = o.History.underWay(owner, o.Now, func(uid string) bool {
			_, exists := o.Cluster.Pod(uid)
			return exists
		})
		o.going[owner] = n
	}
	return n
}

func (o *owners) crowdOf(owner ownerID) crowd {
	if o.crowds == nil {
		o.crowds = map[ownerID]*crowd{}
		for p := range o.Cluster.Pods() {
			o.count(p)
		}
	}
	if c := o.crowds[owner]; c != nil {
		return *c
	}
	return crowd{}
}

func (o *owners) count(p *state.Pod) {
	owner := ownerOf(p)
	if owner == (ownerID{}) {
		return
	}
	c := o.crowds[owner]
	if c == nil {
		c = &crowd{}
		o.crowds[owner] = c
	}
	if made := p.Created().Time; made.After(c.youngest) {
		c.youngest = made
	}
	if p.Terminal {
		return
	}
	c.pods++
	if !p.Deleting {
		c.staying++
	}
	if p.Deleting || !p.Ready() {
		c.unready++
	}
}

// rollingOut: of a Deployment, more than one ReplicaSet wants pods, or the only one has not got
// all of its pods yet; a StatefulSet's pods are of two revisions. Of other owners nothing is known.
func (o *owners) rollingOut(owner ownerID) bool {
	is, known := o.rolling[owner]
	if known {
		return is
	}
	if object := o.object(events.KindReplicaSet, owner); object != nil {
		set, _ := object.API.(*appsv1.ReplicaSet)
		is = set != nil && (o.lacking(set) || o.siblings(set) > 1)
	} else if object := o.object(events.KindStatefulSet, owner); object != nil {
		set, _ := object.API.(*appsv1.StatefulSet)
		is = set != nil && revising(set)
	}
	o.rolling[owner] = is
	return is
}

// surplus: a ReplicaSet or StatefulSet is to have fewer pods than it has, or is deleted. What is evicted of it is not
// made anew.
func (o *owners) surplus(owner ownerID) bool {
	wanted, known := o.wanted(owner)
	return known && o.crowdOf(owner).staying > wanted
}

// wanted is how many pods an owner is to have, if it says so.
func (o *owners) wanted(owner ownerID) (pods int, known bool) {
	for _, k := range []events.Kind{events.KindReplicaSet, events.KindStatefulSet} {
		object := o.object(k, owner)
		if object == nil {
			continue
		}
		var replicas *int32
		switch set := object.API.(type) {
		case *appsv1.ReplicaSet:
			replicas = set.Spec.Replicas
		case *appsv1.StatefulSet:
			replicas = set.Spec.Replicas
		}
		switch {
		case object.API.GetDeletionTimestamp() != nil:
			return 0, true
		case replicas != nil:
			return int(*replicas), true
		}
	}
	return 0, false
}

// object is the owner itself; nil if it is of another kind, not known, or not in the namespace of its pods.
func (o *owners) object(k events.Kind, owner ownerID) *state.Object {
	object, ok := o.Cluster.Object(k, owner.uid)
	if !ok || object.Namespace != owner.namespace {
		return nil
	}
	return object
}

// siblings is how many ReplicaSets of the same controller want pods, or have some.
func (o *owners) siblings(set *appsv1.ReplicaSet) int {
	if o.active == nil {
		o.active = map[ownerID]int{}
		for object := range o.Cluster.Objects(events.KindReplicaSet) {
			rs, ok := object.API.(*appsv1.ReplicaSet)
			if ref := metav1.GetControllerOfNoCopy(object.API); ok && ref != nil && wantsPods(rs) {
				o.active[ownerID{rs.Namespace, string(ref.UID)}]++
			}
		}
	}
	ref := metav1.GetControllerOfNoCopy(set)
	if ref == nil {
		return 0
	}
	return o.active[ownerID{set.Namespace, string(ref.UID)}]
}

// lacking: pods of the set are still to be created. Of one that cannot create them none should go.
func (o *owners) lacking(set *appsv1.ReplicaSet) bool {
	return set.Spec.Replicas != nil && o.crowdOf(ownerID{set.Namespace, string(set.UID)}).pods < int(*set.Spec.Replicas)
}

func wantsPods(set *appsv1.ReplicaSet) bool {
	return set.Spec.Replicas == nil || *set.Spec.Replicas > 0 || set.Status.Replicas > 0
}

func revising(set *appsv1.StatefulSet) bool {
	s := &set.Status
	return s.ObservedGeneration < set.Generation || s.UpdateRevision != "" && s.UpdateRevision != s.CurrentRevision
}
