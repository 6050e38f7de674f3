package claims

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/placement/volumes"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Supply holds the needs of a pod in volumes and devices beyond the rules about nodes. For most pods that is
// nothing: the zero Supply. It is a value, but shares its maps and objects with the Book, and is valid for one
// decision.
type Supply struct {
	// Volumes and Devices are the binder's work before the bind, once a node has been chosen.
	Volumes []ledger.VolumePick
	Devices []ledger.DevicePick

	// objects are those of the cluster, with volumes, devices and claims as they will be once promises are kept; nil
	// for a pod to which that makes no difference.
	objects rule.Objects
	// exclusive are the claims that only one pod in the cluster may use.
	exclusive []*corev1.PersistentVolumeClaim
	// basis are the versions of those claims' documents that the decision has read. It may be committed only on
	// these versions.
	basis []ledger.Version
	// promised is nil for a pod that names no device claims.
	promised *promisedDevices
	// pools are the pod's holdings in device pools that several nodes reach.
	pools []Holding
}

// Any reports whether the pod needs any. Such a pod never takes over a place that is kept or held for another pod:
// there is no check whether its claims find what they need there.
func (v Supply) Any() bool { return v.objects != nil || len(v.exclusive) > 0 }

// SupplyFor determines what a pod needs in volumes and devices. An error means that devices cannot be decided about
// now. Its cost is that of the pod's own volumes, but a pod with unbound claims makes it read the promises of all
// documents.
func (b *Book) SupplyFor(pod *state.Pod, profile *placement.Profile) (v Supply, err error) {
	facts := b.View.Snapshot()
	if len(pod.Template.Spec.Volumes) > 0 {
		v.exclusive = profile.ExclusiveClaims(pod, facts)
		v.basis = b.versionsOf(v.keys())
		if profile.UnboundClaims(pod, facts) {
			v.objects = b.promisedVolumes(facts)
		}
	}
	if !profile.EvaluatesDevices(pod, facts) {
		return v, nil
	}
	under := v.objects
	if under == nil {
		under = facts
	}
	v.promised, err = b.promisedDevices(under, facts)
	v.objects = v.promised
	return v, err
}

// Promised reports whether promises make a difference to what the pod's claims find.
func (v Supply) Promised() bool { return v.objects != nil }

// Settled reports whether the facts show what became of the former users of the pod's claims, and of a node's
// devices.
func (b *Book) Settled(v Supply, d ledger.NodeDoc) bool {
	return (v.promised == nil || b.View.TxnFacts().ClaimProgress() >= d.HighWater(ledger.KindClaim)) &&
		(len(v.exclusive) == 0 || !b.View.HasPodsOnUnknownNodes())
}

// HasExclusive reports whether the pod has claims that only one pod in the cluster may use.
func (v Supply) HasExclusive() bool { return len(v.exclusive) > 0 }

// Lookups returns the objects of the cluster for the pod: the facts, unless there are promises about its claims.
func (v Supply) Lookups(facts *state.Snapshot) rule.Objects {
	if v.objects == nil {
		return facts
	}
	return v.objects
}

// SetAside leaves out of account what the pod itself has been promised of devices, until done is called. A held pod
// that is decided again must find its own devices free.
func (v Supply) SetAside(pod *state.Pod) (done func()) {
	p := v.promised
	if p == nil {
		return func() {}
	}
	p.Devices().Leave(pod, p)
	return func() { p.Devices().Return(pod, p) }
}

// Holdings returns the exclusive things that the pod's reservation holds.
func (v Supply) Holdings() []Holding {
	if len(v.exclusive) == 0 {
		return v.pools
	}
	list := make([]Holding, 0, 2*len(v.exclusive)+len(v.pools))
	for _, key := range v.keys() {
		list = append(list, Holding{Key: key})
	}
	return append(list, v.pools...)
}

// keys returns the keys of the documents of the claims that only one pod may use: by name, as pods refer to them,
// and by UID, the only key that shards of earlier versions know.
func (v Supply) keys() []string {
	if len(v.exclusive) == 0 {
		return nil
	}
	list := make([]string, 0, 2*len(v.exclusive))
	for _, claim := range v.exclusive {
		list = append(list, ledger.KeyVolumeClaim(claim.Namespace, claim.Name), ledger.KeyVolume(string(claim.UID)))
	}
	return list
}

// Changed reports whether the documents of exclusive claims have changed since the decision read them.
func (b *Book) Changed(v Supply) bool { return !slices.Equal(v.basis, b.versionsOf(v.keys())) }

// versionsOf returns the versions of claims' documents in the ledger's view.
func (b *Book) versionsOf(keys []string) []ledger.Version {
	var versions []ledger.Version
	for _, key := range keys {
		versions = append(versions, b.Ledger.Exclusives().Of(key).Version())
	}
	return versions
}

// Available reports whether the claims that only one pod may use are promised to no pod whose use the facts do not show
// yet, and whether the facts show all users. If not, the ledger or the facts will change.
func (b *Book) Available(v Supply) bool {
	if len(v.exclusive) > 0 && b.View.HasPodsOnUnknownNodes() {
		return false
	}
	for _, key := range v.keys() {
		if x := b.Exclusive(key); len(x.Holders) > 0 || b.View.TxnFacts().PodProgress() < x.HW[ledger.KindPod] {
			return false
		}
	}
	return true
}

// Exclusive returns the document of a claim or a pool, without the holders that the facts show or that have been
// taken back. Their entries may still be in the nodes' documents: the high-water mark keeps any shard that has not
// applied those facts from taking the claim.
func (b *Book) Exclusive(key string) ledger.ExclusiveDoc {
	x, _ := txns.FinishHolders(b.Ledger.Exclusives().Of(key), handedOver{b.Ledger, b})
	return x
}

// handedOver is the ledger as it will be once everything that the facts show has been handed over.
type handedOver struct {
	*replica.View
	book *Book
}

// Doc implements txns.Reservations.
func (h handedOver) Doc(nodeUID string) (ledger.NodeDoc, bool) {
	d, ok := h.View.Doc(nodeUID)
	if ok {
		d, _ = txns.Finish(d, h.book.View.TxnFacts())
	}
	return d, ok
}

// pickVolumes determines what must be done about the pod's volume claims on a node; false if the node does not fit
// after all.
func (v Supply) pickVolumes(profile *placement.Profile, pod *state.Pod, node *state.Node) (Supply, bool) {
	if len(pod.Template.Spec.Volumes) == 0 {
		return v, true
	}
	v.Volumes = nil
	ok := true
	if v.objects != nil {
		var picks []volumes.Pick
		picks, ok = profile.VolumePicks(pod, node, v.objects)
		for _, p := range picks {
			v.Volumes = append(v.Volumes, ledger.VolumePick{Claim: p.Claim, ClaimUID: p.UID, Volume: p.Volume})
		}
	}
	for _, claim := range v.exclusive {
		picked := func(p ledger.VolumePick) bool { return p.Claim == claim.Name }
		if !slices.ContainsFunc(v.Volumes, picked) {
			v.Volumes = append(v.Volumes, ledger.VolumePick{Claim: claim.Name, ClaimUID: string(claim.UID), HasVolume: true})
		}
	}
	return v, ok
}

// NoWork reports whether nothing has to be written about the pod's claims before the bind.
func (v Supply) NoWork() bool {
	work := func(p ledger.VolumePick) bool { return !p.HasVolume }
	return !slices.ContainsFunc(v.Volumes, work) && len(v.Devices) == 0
}

// promisedVolumes are the facts plus the promises of volumes to reservations and staged attempts: a volume promised
// to a claim is available to no other, and a claim whose volume is still to be provisioned is tied to its node.
// Binders write that into the cluster, and the facts show it later. (A shard that does not know of a promise that
// another shard has just made loses the race at the API server, and decides again.)
func (b *Book) promisedVolumes(facts *state.Snapshot) rule.Objects {
	p := promisedVolumes{Snapshot: facts, claimOf: map[string]promisedClaim{}, nodeOf: map[string]promisedNode{}}
	for d := range b.Ledger.Docs() {
		for i := range d.Entries {
			e := &d.Entries[i]
			p.promise(e.Namespace, d.NodeName, e.Volumes)
		}
	}
	for a := range b.Staged() {
		p.promise(a.Pod.Namespace, a.Node, a.Supply.Volumes)
	}
	return p
}

// promisedVolumes implements rule.Objects. Names of claims are namespace/name.
type promisedVolumes struct {
	*state.Snapshot
	claimOf map[string]promisedClaim // by volume
	nodeOf  map[string]promisedNode  // by claim for which a volume is to be provisioned
}

// promisedClaim is a claim that gets a volume; without a UID, from a member that does not record it, any claim of
// the name.
type promisedClaim struct{ namespace, name, uid string }

// promisedNode is a node for which a volume is to be provisioned, for the claim with that UID.
type promisedNode struct{ name, claimUID string }

// promise notes the volumes that are promised to the claims of a pod on a node. Claims that have their volume
// already need no promise.
func (p promisedVolumes) promise(namespace, node string, picks []ledger.VolumePick) {
	for _, v := range picks {
		switch {
		case v.HasVolume:
		case v.Volume == "":
			p.nodeOf[namespace+"/"+v.Claim] = promisedNode{node, v.ClaimUID}
		default:
			p.claimOf[v.Volume] = promisedClaim{namespace, v.Claim, v.ClaimUID}
		}
	}
}

// ObjectByName implements rule.Objects.
func (p promisedVolumes) ObjectByName(k events.Kind, namespace, name string) (*state.Object, bool) {
	o, ok := p.Snapshot.ObjectByName(k, namespace, name)
	if !ok || k != events.KindVolumeClaim {
		return o, ok
	}
	node, promised := p.nodeOf[namespace+"/"+name]
	claim, isClaim := o.API.(*corev1.PersistentVolumeClaim)
	if !promised || !isClaim || claim.Spec.VolumeName != "" || node.claimUID != "" && node.claimUID != o.UID {
		return o, ok
	}
	claim = claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[volumes.AnnotationSelectedNode] = node.name
	with := *o
	with.API = claim
	return &with, true
}

// ObjectsOf implements rule.Objects.
func (p promisedVolumes) ObjectsOf(k events.Kind, key string) iter.Seq[*state.Object] {
	all := p.Snapshot.ObjectsOf(k, key)
	if k != events.KindPersistentVolume || len(p.claimOf) == 0 {
		return all
	}
	return func(yield func(*state.Object) bool) {
		for o := range all {
			if !yield(p.bound(o)) {
				return
			}
		}
	}
}

// bound returns a volume with the claim that it is promised to.
func (p promisedVolumes) bound(o *state.Object) *state.Object {
	claim, promised := p.claimOf[o.Name]
	volume, ok := o.API.(*corev1.PersistentVolume)
	if !promised || !ok || volume.Spec.ClaimRef != nil {
		return o
	}
	volume = volume.DeepCopy()
	volume.Spec.ClaimRef = &corev1.ObjectReference{
		Namespace: claim.namespace, Name: claim.name, UID: types.UID(claim.uid),
	}
	with := *o
	with.API = volume
	return &with
}
