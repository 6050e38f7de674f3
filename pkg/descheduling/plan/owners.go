package plan

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// owners protects the owners of pods: it limits how many of an owner's pods are evicted, and when.
type owners struct {
	*Input
	// crowds holds the pods of each owner, built when first needed; going is how many of an owner's pods this plan
	// and earlier ones evict; rolling caches whether an owner is rolling out.
	crowds  map[ownerID]*crowd
	going   map[ownerID]int
	rolling map[ownerID]bool
	// back is the creation time of the last replacement that came back, by owner.
	back map[ownerID]time.Time
	// active is, by controller, the number of its ReplicaSets that want pods.
	active map[ownerID]int
}

// crowd counts the pods of one owner that have not ended, and holds the creation time of the youngest, ended or
// not.
type crowd struct {
	// pods is the number of those that have not ended; staying is the number of those that are not terminating
	// either.
	pods, staying, unready int
	youngest               time.Time
}

func newOwners(in *Input) *owners {
	return &owners{Input: in, going: map[ownerID]int{}, rolling: map[ownerID]bool{}}
}

// refuse returns why no pod of an owner may be evicted now. For a pod without an owner only its namespace is
// checked.
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

// returns returns the pods that came back, and records their owners. It costs a look at all pods if any pod was
// evicted not long ago.
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

// underWay returns how many pods of an owner are being evicted: those of the plan, and those requested before that
// still exist.
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

// rollingOut reports whether an owner is rolling out: a Deployment of which more than one ReplicaSet wants pods, or
// whose only one does not have all of its pods yet; a StatefulSet whose pods are of two revisions. For other owners
// it is unknown, and false.
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

// surplus reports whether a ReplicaSet or StatefulSet should have fewer pods than it has, or is deleted. Its
// evicted pods are not created again.
func (o *owners) surplus(owner ownerID) bool {
	wanted, known := o.wanted(owner)
	return known && o.crowdOf(owner).staying > wanted
}

// wanted returns how many pods an owner should have, if that is specified.
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

// object returns the owner itself; nil if it has another kind, is unknown, or is not in the namespace of its pods.
func (o *owners) object(k events.Kind, owner ownerID) *state.Object {
	object, ok := o.Cluster.Object(k, owner.uid)
	if !ok || object.Namespace != owner.namespace {
		return nil
	}
	return object
}

// siblings returns how many ReplicaSets of the same controller want pods, or have some.
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

// lacking reports whether pods of the set are still to be created. If the set cannot create them, none should be
// evicted.
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
