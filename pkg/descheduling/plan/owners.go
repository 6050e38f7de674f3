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

// owners protects the owners of pods: it limits how many of an owner's pods are evicted, and when. An owner is a
// pod's controller; for pods of a Deployment, that is the ReplicaSet.
type owners struct {
	*Input
	// pods holds the pods of each owner, built when first needed; evicting is how many of an owner's pods this plan
	// and earlier ones evict; rolling caches whether an owner is rolling out.
	pods     map[ownerID]*ownerPods
	evicting map[ownerID]int
	rolling  map[ownerID]bool
	// returnedAt is the creation time of the last replacement that came back, by owner.
	returnedAt map[ownerID]time.Time
	// active is, by controller, the number of its ReplicaSets that want pods.
	active map[ownerID]int
}

// ownerPods counts the pods of one owner that have not ended, and holds the creation time of the youngest, ended or
// not.
type ownerPods struct {
	// pods is the number of those that have not ended; staying is the number of those that are not terminating
	// either.
	pods, staying, unready int
	youngest               time.Time
}

func newOwners(in *Input) *owners {
	return &owners{Input: in, evicting: map[ownerID]int{}, rolling: map[ownerID]bool{}}
}

// refuse returns why no pod of an owner may be evicted now. For a pod without an owner only its namespace is
// checked. The pauses come first because they need no look at the cluster; the counts of pods are built for the
// first owner that is not paused.
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
	case past.coolingDown(b, o.Now):
		return OwnerCoolingDown
	case b.Cooldown > 0 && past.refusedLately(o.Now):
		return OwnerRefused
	case o.Now.Sub(o.returnedAt[owner]) < b.MaxCooldown:
		return OwnerReturned
	case o.underWay(owner) >= b.AtOnce(o.podsOf(owner).pods):
		return OwnerBusy
	case b.Cooldown > 0 && o.History.awaitingOutcome(owner, o.Now):
		return OwnerCoolingDown // its round has not ended
	case b.PauseDuringRollout && o.rollingOut(owner):
		return RollingOut
	case o.surplus(owner):
		return Surplus
	case b.WaitForReady && past.recent(b, o.Now) && o.podsOf(owner).unready > 0:
		return ReplacementUnready
	default:
		return ""
	}
}

// findReturned returns the pods that came back, and records their owners. It costs a look at all pods if any pod
// was evicted not long ago, and nothing otherwise.
func (o *owners) findReturned() (back []*state.Pod) {
	o.returnedAt = map[ownerID]time.Time{}
	if len(o.History.owners) == 0 {
		return nil
	}
	for p := range o.Cluster.Pods() {
		owner := ownerOf(p)
		if owner == (ownerID{}) || p.NodeName == "" || p.Terminal || p.Deleting {
			continue
		}
		made := p.Created().Time
		if !o.History.owners[owner].returned(p.NodeName, made) {
			continue
		}
		back = append(back, p)
		if made.After(o.returnedAt[owner]) {
			o.returnedAt[owner] = made
		}
	}
	return back
}

// countEviction counts a planned eviction of a pod of the owner.
func (o *owners) countEviction(owner ownerID) {
	if owner != (ownerID{}) {
		o.evicting[owner] = o.underWay(owner) + 1
	}
}

// underWay returns how many pods of an owner are being evicted: those of the plan, and those requested before that
// still exist.
func (o *owners) underWay(owner ownerID) int {
	n, known := o.evicting[owner]
	if !known {
		n = o.History.underWay(owner, o.Now, func(uid string) bool {
			_, exists := o.Cluster.Pod(uid)
			return exists
		})
		o.evicting[owner] = n
	}
	return n
}

// podsOf returns the counts of an owner's pods; zero for an owner without pods. The first call counts all pods of
// the cluster.
func (o *owners) podsOf(owner ownerID) ownerPods {
	if o.pods == nil {
		o.pods = map[ownerID]*ownerPods{}
		for p := range o.Cluster.Pods() {
			o.count(p)
		}
	}
	if c := o.pods[owner]; c != nil {
		return *c
	}
	return ownerPods{}
}

// count adds a pod to the counts of its owner. A terminating pod counts as unready: its replacement is still
// missing.
func (o *owners) count(p *state.Pod) {
	owner := ownerOf(p)
	if owner == (ownerID{}) {
		return
	}
	c := o.pods[owner]
	if c == nil {
		c = &ownerPods{}
		o.pods[owner] = c
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
	if object := o.objectOf(events.KindReplicaSet, owner); object != nil {
		set, _ := object.API.(*appsv1.ReplicaSet)
		is = set != nil && (o.incomplete(set) || o.siblings(set) > 1)
	} else if object := o.objectOf(events.KindStatefulSet, owner); object != nil {
		set, _ := object.API.(*appsv1.StatefulSet)
		is = set != nil && updating(set)
	}
	o.rolling[owner] = is
	return is
}

// surplus reports whether a ReplicaSet or StatefulSet should have fewer pods than it has, or is deleted. Its
// evicted pods are not created again.
func (o *owners) surplus(owner ownerID) bool {
	wanted, known := o.desired(owner)
	return known && o.podsOf(owner).staying > wanted
}

// desired returns how many pods an owner should have, if that is specified.
func (o *owners) desired(owner ownerID) (pods int, known bool) {
	for _, k := range []events.Kind{events.KindReplicaSet, events.KindStatefulSet} {
		object := o.objectOf(k, owner)
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

// objectOf returns the owner itself; nil if it has another kind, is unknown, or is not in the namespace of its pods.
func (o *owners) objectOf(k events.Kind, owner ownerID) *state.Object {
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

// incomplete reports whether pods of the set are still to be created. If the set cannot create them, none should be
// evicted.
func (o *owners) incomplete(set *appsv1.ReplicaSet) bool {
	return set.Spec.Replicas != nil && o.podsOf(ownerID{set.Namespace, string(set.UID)}).pods < int(*set.Spec.Replicas)
}

// wantsPods reports whether a ReplicaSet should have pods, or still has some. Old revisions of a Deployment have
// neither.
func wantsPods(set *appsv1.ReplicaSet) bool {
	return set.Spec.Replicas == nil || *set.Spec.Replicas > 0 || set.Status.Replicas > 0
}

// updating reports whether a StatefulSet is between two revisions, or its controller has not seen the newest
// specification yet.
func updating(set *appsv1.StatefulSet) bool {
	s := &set.Status
	return s.ObservedGeneration < set.Generation || s.UpdateRevision != "" && s.UpdateRevision != s.CurrentRevision
}

// ownerID identifies an owner of pods: an object in their namespace. The UID alone would not be enough: the creator
// of a pod writes its references and may copy the UID of an object in another namespace.
type ownerID struct{ namespace, uid string }

// ownerOf returns a pod's controller; the zero value if it has none.
func ownerOf(pod *state.Pod) ownerID { return ownerIn(pod.Namespace, view.OwnerOf(pod)) }

// ownerIn returns the owner with a UID in a namespace; the zero value without a UID.
func ownerIn(namespace, uid string) ownerID {
	if uid == "" {
		return ownerID{}
	}
	return ownerID{namespace, uid}
}
