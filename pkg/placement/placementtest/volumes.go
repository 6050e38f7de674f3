package placementtest

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// volumeKinds are the kinds of volumes and of the objects that provide them.
var volumeKinds = []events.Kind{
	events.KindPersistentVolume, events.KindVolumeClaim, events.KindStorageClass, events.KindCSINode,
	events.KindCSIDriver, events.KindStorageCapacity, events.KindVolumeAttachment,
}

// Drivers and storage classes. The class "lost" has no object, and "capped" is that of a driver that publishes its
// capacity.
const (
	diskDriver   = "disk.example.com"
	cappedDriver = "capped.example.com"
	ebsDriver    = "ebs.csi.aws.com"
	ebsPlugin    = "kubernetes.io/aws-ebs"
)

var classNames = []string{"wait", "wait", "local", "local", "now", "zonal", "capped", "capped", "ebs", "lost", ""}

func (g *Generator) storageClass(name string) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + g.next(name))}}
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	c.Provisioner = diskDriver
	switch name {
	case "local":
		c.Provisioner = "kubernetes.io/no-provisioner"
	case "now":
		mode = storagev1.VolumeBindingImmediate
	case "zonal":
		c.AllowedTopologies = []corev1.TopologySelectorTerm{g.topologyTerm(), g.topologyTerm()}
	case "capped":
		c.Provisioner = cappedDriver
	case "ebs":
		c.Provisioner = ebsPlugin
	}
	if !g.rarely() {
		c.VolumeBindingMode = &mode
	}
	return c
}

func (g *Generator) topologyTerm() corev1.TopologySelectorTerm {
	if g.Chance(10) {
		return corev1.TopologySelectorTerm{}
	}
	term := corev1.TopologySelectorTerm{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
		{Key: corev1.LabelTopologyZone, Values: Some(g, 60, "z1", "z2", "z3", "z4")},
	}}
	if g.Chance(20) {
		term.MatchLabelExpressions = append(term.MatchLabelExpressions,
			corev1.TopologySelectorLabelRequirement{Key: "disk", Values: []string{"ssd"}})
	}
	return term
}

// volumes draws classes, drivers, and the volumes and claims that exist before any pod.
func (g *Generator) volumes(c *Cluster) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(classNames))) {
		if name != "lost" && name != "" {
			c.put(events.KindStorageClass, g.storageClass(name))
		}
	}
	g.requireDriver(c)
	c.put(events.KindCSIDriver, g.csiDriver(cappedDriver))
	c.put(events.KindCSIDriver, g.csiDriver(diskDriver))
	for range 6 + g.IntN(20) {
		c.put(events.KindPersistentVolume, g.volume(c))
	}
	for range 8 + g.IntN(20) {
		c.put(events.KindVolumeClaim, g.claim(c))
	}
	for range g.IntN(5) {
		c.put(events.KindStorageCapacity, g.capacity())
	}
}

func (g *Generator) csiDriver(name string) *storagev1.CSIDriver {
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + g.next(name))}}
	reportsCapacity := name == cappedDriver
	if g.Chance(15) {
		reportsCapacity = !reportsCapacity
	}
	if reportsCapacity || g.Chance(50) {
		d.Spec.StorageCapacity = &reportsCapacity
	}
	g.maybeRequired(d)
	return d
}

// csiNode returns the limits of the drivers on a node; nothing for some nodes.
func (g *Generator) csiNode(node string) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID("uid-" + g.next("csinode"))}}
	for _, driver := range Some(g, 70, diskDriver, cappedDriver, ebsDriver) {
		d := storagev1.CSINodeDriver{Name: driver, NodeID: node}
		if g.Chance(70) {
			count := Pick[int32](g, 0, 1, 1, 2, 3, 5)
			d.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
		}
		n.Spec.Drivers = append(n.Spec.Drivers, d)
	}
	if g.Chance(60) {
		n.Annotations = map[string]string{
			corev1.MigratedPluginsAnnotationKey: Pick(g, ebsPlugin, "kubernetes.io/gce-pd,"+ebsPlugin, "kubernetes.io/gce-pd"),
		}
	}
	return n
}

// gigabytes never returns the same value twice, so that there is always one smallest volume.
func (g *Generator) gigabytes() resource.Quantity {
	g.serial++
	return quantity(int64(1+g.IntN(6))<<30 + int64(g.serial))
}

func (g *Generator) accessModes() []corev1.PersistentVolumeAccessMode {
	if g.Chance(60) {
		return []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	return Pick(g,
		[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod},
		[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadWriteOncePod},
		[]corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany},
	)
}

func (g *Generator) volumeMode() *corev1.PersistentVolumeMode {
	if g.Chance(85) {
		return nil
	}
	mode := Pick(g, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	return &mode
}

// volume draws a volume with a new name.
func (g *Generator) volume(c *Cluster) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: g.meta("", "pv")}
	v.Labels = map[string]string{}
	g.label(v.Labels, "tier", "1", "2")
	v.Spec = corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: g.gigabytes()}, AccessModes: g.accessModes(),
		VolumeMode: g.volumeMode(), StorageClassName: Pick(g, classNames...),
	}
	v.Status.Phase = corev1.VolumeAvailable
	switch n := g.IntN(100); {
	case n < 8:
		v.Status.Phase = Pick(g, corev1.VolumePending, corev1.VolumeReleased, corev1.VolumeBound)
	case n < 20 && len(c.Others[events.KindVolumeClaim]) > 0:
		g.promise(v, Pick(g, c.Others[events.KindVolumeClaim]...))
	case n < 23:
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "somebody's"}
	}
	if g.Chance(5) {
		v.Spec.VolumeAttributesClassName = new(string)
		*v.Spec.VolumeAttributesClassName = "gold"
	}
	g.source(v)
	g.reachable(v, c)
	return v
}

// promise makes a volume name a claim; each claim is named by one volume only, because of two volumes either may be
// bound.
func (g *Generator) promise(v *corev1.PersistentVolume, claim state.APIObject) {
	if g.promised == nil {
		g.promised = map[string]bool{}
	}
	if g.promised[claim.GetName()] {
		return
	}
	g.promised[claim.GetName()] = true
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.GetNamespace(), Name: claim.GetName()}
	if g.Chance(50) {
		v.Spec.ClaimRef.UID = claim.GetUID()
	}
	if pvc, ok := claim.(*corev1.PersistentVolumeClaim); ok && g.Chance(80) {
		v.Spec.StorageClassName = state.ClaimClass(pvc)
	}
}

func (g *Generator) source(v *corev1.PersistentVolume) {
	switch {
	case v.Spec.StorageClassName == "ebs":
		v.Spec.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + v.Name}
	case g.Chance(60):
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{
			Driver: Pick(g, diskDriver, cappedDriver, ebsDriver), VolumeHandle: "handle-" + v.Name,
		}
	default:
		v.Spec.Local = &corev1.LocalVolumeSource{Path: "/mnt"}
	}
}

// reachable defines on which nodes a volume can be used: by affinity, by labels, or on all.
func (g *Generator) reachable(v *corev1.PersistentVolume, c *Cluster) {
	in := func(key string, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values},
		}}
	}
	var terms []corev1.NodeSelectorTerm
	switch n := g.IntN(100); {
	case n < 25 && len(c.Nodes) > 0:
		for range 1 + g.IntN(4) {
			terms = append(terms, in(corev1.LabelHostname, Pick(g, c.Nodes...).Name))
		}
	case n < 50:
		terms = append(terms, in(corev1.LabelTopologyZone, "z1", Pick(g, "z2", "z3")))
	case n < 60:
		terms = append(terms, in("zone", Pick(g, "a", "b")), in("disk", "ssd"))
	}
	if terms != nil {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
	}
	if g.Chance(30) {
		v.Labels[Pick(g, corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone)] =
			Pick(g, "z1", "z2", "z1__z2", "z2__ z3", "z1__")
	}
}

// claim draws a claim with a new name: bound, promised, or still without a volume.
func (g *Generator) claim(c *Cluster) *corev1.PersistentVolumeClaim {
	p := &corev1.PersistentVolumeClaim{ObjectMeta: g.meta(Pick(g, namespaces...), "claim")}
	class := Pick(g, classNames...)
	p.Spec = corev1.PersistentVolumeClaimSpec{
		AccessModes: g.accessModes(), VolumeMode: g.volumeMode(), StorageClassName: &class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceStorage: quantity(int64(g.IntN(5)) << 30),
		}},
	}
	p.Status.Phase = corev1.ClaimPending
	if g.Chance(5) {
		p.Spec.Resources.Requests = nil
	}
	if g.Chance(10) {
		p.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "1"}}
	}
	g.progress(p, c)
	if g.Chance(2) {
		p.Finalizers = []string{"kubernetes.io/pvc-protection"}
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return p
}

// progress draws how far the claim is bound to a volume.
func (g *Generator) progress(p *corev1.PersistentVolumeClaim, c *Cluster) {
	volumes := c.Others[events.KindPersistentVolume]
	switch n := g.IntN(100); {
	case n < 50 && len(volumes) > 0:
		p.Spec.VolumeName = Pick(g, volumes...).GetName()
		if g.Chance(35) {
			p.Spec.VolumeName = "no-such-volume"
		}
		if !g.Chance(5) {
			p.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		}
		p.Status.Phase = corev1.ClaimBound
		if g.Chance(2) {
			p.Status.Phase = corev1.ClaimLost
		}
	case n < 60:
		p.Annotations = map[string]string{"volume.kubernetes.io/selected-node": g.nodeName(c)}
	}
}

func (g *Generator) capacity() *storagev1.CSIStorageCapacity {
	c := &storagev1.CSIStorageCapacity{
		ObjectMeta: g.meta("default", "capacity"), StorageClassName: Pick(g, "capped", "wait"),
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{
			corev1.LabelTopologyZone: Pick(g, "z1", "z2", "z3"),
		}},
	}
	if g.Chance(10) {
		c.NodeTopology = nil
	}
	room, most := g.gigabytes(), g.gigabytes()
	if g.Chance(85) {
		c.Capacity = &room
	}
	if g.Chance(20) {
		c.MaximumVolumeSize = &most
	}
	return c
}

func (g *Generator) attachment(c *Cluster) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: g.meta("", "attachment")}
	a.Spec.Attacher, a.Spec.NodeName = Pick(g, diskDriver, ebsDriver), g.nodeName(c)
	if volumes := c.Others[events.KindPersistentVolume]; len(volumes) > 0 && !g.Chance(5) {
		name := Pick(g, volumes...).GetName()
		a.Spec.Source.PersistentVolumeName = &name
	}
	return a
}

// mounts gives a pod volumes.
func (g *Generator) mounts(p *corev1.Pod, c *Cluster) {
	for i := range 1 + g.IntN(2) {
		v := corev1.Volume{Name: fmt.Sprint("v", i)}
		switch n := g.IntN(100); {
		case n < 65:
			v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: g.claimName(p, c)}
		case n < 75:
			v.Ephemeral = &corev1.EphemeralVolumeSource{}
		default:
			g.disk(&v)
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
}

// claimName returns mostly the name of a claim in the pod's namespace.
func (g *Generator) claimName(p *corev1.Pod, c *Cluster) string {
	var names []string
	for _, claim := range c.Others[events.KindVolumeClaim] {
		if claim.GetNamespace() == p.Namespace {
			names = append(names, claim.GetName())
		}
	}
	if len(names) == 0 || g.Chance(2) {
		return "no-such-claim"
	}
	return Pick(g, names...)
}

func (g *Generator) disk(v *corev1.Volume) {
	readOnly, name := g.Chance(40), Pick(g, "a", "b")
	switch g.IntN(6) {
	case 0:
		v.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}
	case 1:
		v.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + name, ReadOnly: readOnly}
	case 2:
		v.ISCSI = &corev1.ISCSIVolumeSource{IQN: name, ReadOnly: readOnly}
	case 3:
		v.RBD = &corev1.RBDVolumeSource{
			CephMonitors: Some(g, 60, "m1", "m2"), RBDPool: "p", RBDImage: name, ReadOnly: readOnly,
		}
	case 4:
		v.Cinder = &corev1.CinderVolumeSource{VolumeID: name, ReadOnly: readOnly}
	default:
		v.CSI = &corev1.CSIVolumeSource{Driver: Pick(g, diskDriver, cappedDriver)}
	}
}

// ownClaims returns the claims for a pod's ephemeral volumes, most of which exist.
func (g *Generator) ownClaims(p *corev1.Pod, c *Cluster) []Event {
	var list []Event
	for _, v := range p.Spec.Volumes {
		if v.Ephemeral == nil || g.Chance(15) {
			continue
		}
		claim, yes := g.claim(c), true
		claim.Namespace, claim.Name = p.Namespace, p.Name+"-"+v.Name
		if p.Spec.NodeName != "" || !g.Chance(5) {
			claim.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: &yes},
			}
		}
		list = append(list, Event{What: "claim of the pod's own", Kind: events.KindVolumeClaim, New: claim})
	}
	return list
}

// volumeEvent changes volumes, or the objects that provide them.
func (g *Generator) volumeEvent(c *Cluster) Event {
	kind := Pick(g, volumeKinds...)
	existing := c.Others[kind]
	if len(existing) > 0 && g.Chance(25) && kind != events.KindCSIDriver {
		return Event{What: string(kind) + " removed", Kind: kind, Old: Pick(g, existing...)}
	}
	obj := g.volumeObject(kind, c)
	e := Event{What: string(kind) + " added", Kind: kind, New: obj, Old: c.find(kind, obj.GetNamespace(), obj.GetName())}
	if e.Old == nil && len(existing) > 0 && g.Chance(60) {
		old := Pick(g, existing...)
		if kind == events.KindCSINode || kind == events.KindStorageClass {
			return Event{What: string(kind) + " removed", Kind: kind, Old: old}
		}
		e.replace(old)
		obj.SetOwnerReferences(old.GetOwnerReferences())
	}
	return e.changed()
}

func (g *Generator) volumeObject(k events.Kind, c *Cluster) state.APIObject {
	switch k {
	case events.KindPersistentVolume:
		return g.volume(c)
	case events.KindVolumeClaim:
		return g.claim(c)
	case events.KindStorageClass:
		return g.storageClass(Pick(g, "wait", "local", "now", "zonal", "capped", "ebs"))
	case events.KindCSINode:
		return g.csiNode(g.nodeName(c))
	case events.KindCSIDriver:
		return g.csiDriver(Pick(g, g.csiDrivers()...))
	case events.KindStorageCapacity:
		return g.capacity()
	default:
		return g.attachment(c)
	}
}
