package decide

import (
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// volumes is what a pod has to do with volumes and devices beyond the rules about nodes. Most pods have
// none of it.
type volumes struct {
	// objects are those of the cluster, with the volumes, devices and claims that are promised as
	// they will be; nil for a pod to which that makes no difference.
	objects placement.Objects
	// exclusive are the UIDs of the claims that only one pod in the cluster may use.
	exclusive []string
	// basis are the versions of those claims' documents that the decision has looked at: the only ones it may
	// be committed on.
	basis []ledger.Version
	// picks are what the binder has to do before the bind, once a node has been chosen.
	picks   []ledger.VolumePick
	devices devices
}

// any: a pod like this takes no place that was kept or is held for another: whether its claims find there
// what they need has not been asked.
func (v volumes) any() bool { return v.objects != nil || len(v.exclusive) > 0 }

// volumesOf finds out what a pod has to do with volumes.
func (c *Core) volumesOf(pod *state.Pod, profile *placement.Profile) (v volumes, err error) {
	facts := c.view.Snapshot()
	if len(pod.Template.Spec.Volumes) > 0 {
		v.exclusive = profile.ExclusiveClaims(pod, facts)
		v.basis = c.versionsOf(v.exclusive)
		if profile.UnboundClaims(pod, facts) {
			v.objects = c.promisedVolumes(facts)
		}
	}
	if !profile.LooksAtDevices(pod, facts) {
		return v, nil
	}
	under := v.objects
	if under == nil {
		under = facts
	}
	v.devices.promised, err = c.promisedDevices(under, facts)
	v.objects = v.devices.promised
	return v, err
}

// lookups are the objects of the cluster for the pod, facts unless there are promises about its claims.
func (v volumes) lookups(facts *state.Snapshot) placement.Objects {
	if v.objects == nil {
		return facts
	}
	return v.objects
}

// setAside leaves what a pod itself has been promised of devices out of account, until done.
func (v volumes) setAside(pod *state.Pod) (done func()) {
	p := v.devices.promised
	if p == nil {
		return func() {}
	}
	p.Devices().Leave(pod, p)
	return func() { p.Devices().Return(pod, p) }
}

// holdings are what the pod's reservation holds that is exclusive.
func (v volumes) holdings() []holding {
	if len(v.exclusive) == 0 {
		return v.devices.pools
	}
	list := make([]holding, 0, len(v.exclusive)+len(v.devices.pools))
	for _, uid := range v.exclusive {
		list = append(list, holding{key: ledger.KeyVolume(uid)})
	}
	return append(list, v.devices.pools...)
}

// versionsOf are the versions of claims' documents as they are known.
func (c *Core) versionsOf(claims []string) []ledger.Version {
	var versions []ledger.Version
	for _, uid := range claims {
		versions = append(versions, c.ledger.Exclusive(ledger.KeyVolume(uid)).Version())
	}
	return versions
}

// free tells whether nobody is promised the claims that only one pod may use, as far as the
// facts do not show who uses them, and whether the facts show all who do. If not, the ledger or the facts
// will move.
func (c *Core) free(v volumes) bool {
	if len(v.exclusive) > 0 && c.view.HasPodsOnUnknownNodes() {
		return false
	}
	for _, uid := range v.exclusive {
		if x := c.exclusive(ledger.KeyVolume(uid)); len(x.Holders) > 0 || c.view.PodProgress() < x.HW[ledger.KindPod] {
			return false
		}
	}
	return true
}

// exclusive is the document of a claim or a pool, without the holders that the facts show or that have
// been taken back. It need not be that their entries have left the nodes' documents already: the
// high-water keeps whoever has not applied those facts from the claim.
func (c *Core) exclusive(key string) ledger.ExclusiveDoc {
	x, _ := ledger.FinishHolders(c.ledger.Exclusive(key), handedOver{c.ledger, c})
	return x
}

// handedOver is the ledger as it will be when all that the facts show has been handed over.
type handedOver struct {
	*ledger.View
	core *Core
}

// Doc implements ledger.Reservations.
func (h handedOver) Doc(nodeUID string) (ledger.NodeDoc, bool) {
	d, ok := h.View.Doc(nodeUID)
	if ok {
		d, _ = ledger.Finish(d, h.core.view)
	}
	return d, ok
}

// pickVolumes says what has to be done about the pod's claims on a node; false if the node will
// not do after all.
func (v volumes) pickVolumes(profile *placement.Profile, pod *state.Pod, node *state.Node) (volumes, bool) {
	if v.objects == nil || len(pod.Template.Spec.Volumes) == 0 {
		return v, true
	}
	picks, ok := profile.VolumePicks(pod, node, v.objects)
	v.picks = nil
	for _, p := range picks {
		v.picks = append(v.picks, ledger.VolumePick{Claim: p.Claim, Volume: p.Volume})
	}
	return v, ok
}

// promisedVolumes are the facts with what reservations and staged attempts have been promised:
// a volume that one of them gets is nobody else's, and a claim for which a volume is to be made
// belongs to its node. Binders write that into the cluster, and the facts come after it.
// (Who does not know of a promise that another shard has just made loses it at the API server,
// and decides again.)
func (c *Core) promisedVolumes(facts *state.Snapshot) placement.Objects {
	p := promisedVolumes{Snapshot: facts, claimOf: map[string]string{}, nodeOf: map[string]string{}}
	for d := range c.ledger.Docs() {
		for i := range d.Entries {
			e := &d.Entries[i]
			p.promise(e.Namespace, d.NodeName, e.Volumes)
		}
	}
	for a := range c.stagedAttempts() {
		p.promise(a.pod.Namespace, a.pick.nodeName, a.pick.volumes.picks)
	}
	return p
}

// promisedVolumes implements placement.Objects. Names of claims are namespace/name.
type promisedVolumes struct {
	*state.Snapshot
	claimOf map[string]string // by volume
	nodeOf  map[string]string // by claim for which a volume is to be made
}

func (p promisedVolumes) promise(namespace, node string, picks []ledger.VolumePick) {
	for _, v := range picks {
		if v.Volume == "" {
			p.nodeOf[namespace+"/"+v.Claim] = node
		} else {
			p.claimOf[v.Volume] = namespace + "/" + v.Claim
		}
	}
}

// ObjectByName implements placement.Objects.
func (p promisedVolumes) ObjectByName(k events.Kind, namespace, name string) (*state.Object, bool) {
	o, ok := p.Snapshot.ObjectByName(k, namespace, name)
	if !ok || k != events.KindVolumeClaim {
		return o, ok
	}
	node, promised := p.nodeOf[namespace+"/"+name]
	claim, isClaim := o.API.(*corev1.PersistentVolumeClaim)
	if !promised || !isClaim || claim.Spec.VolumeName != "" {
		return o, ok
	}
	claim = claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[placement.AnnotationSelectedNode] = node
	with := *o
	with.API = claim
	return &with, true
}

// ObjectsOf implements placement.Objects.
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

// bound is a volume with the claim that it is promised to.
func (p promisedVolumes) bound(o *state.Object) *state.Object {
	claim, promised := p.claimOf[o.Name]
	volume, ok := o.API.(*corev1.PersistentVolume)
	if !promised || !ok || volume.Spec.ClaimRef != nil {
		return o
	}
	volume = volume.DeepCopy()
	namespace, name, _ := strings.Cut(claim, "/")
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: name}
	with := *o
	with.API = volume
	return &with
}
