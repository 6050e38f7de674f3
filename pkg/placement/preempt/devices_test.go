package preempt

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// crowdFacts is a store that facts are applied to.
type crowdFacts struct {
	store    *state.Store
	sequence uint64
}

func (w *crowdFacts) apply(t *rapid.T, kind events.Kind, obj state.APIObject) {
	data, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	w.sequence++
	_, err = w.store.Apply([]events.SequencedFact{{Sequence: w.sequence, Fact: events.Fact{
		Kind: kind, Op: events.OpUpsert, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		ResourceVersion: w.sequence, Progress: w.sequence, Object: data,
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

func metaOf(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}
}

// ownIndex is a snapshot with an index of devices of its own.
type ownIndex struct {
	*state.Snapshot
	index *devices.Index
}

func (o ownIndex) Devices() *devices.Index { return o.index }

// deviceCrowd is a cluster whose devices are held by less important pods, some of them in claims that several pods
// use.
type deviceCrowd struct {
	crowdFacts
	profile *placement.Profile
	nodes   []*state.NodeInfo
	// claims holds the claims by name, with their users; promised holds those whose devices the facts do not show
	// yet.
	claims   map[string]*resourcev1.ResourceClaim
	promised map[string]string
	pods     []*state.Pod
	free     []resourcev1.DeviceRequestAllocationResult
}

func drawDeviceCrowd(t *rapid.T) *deviceCrowd {
	cfg := placement.DefaultProfile("default-scheduler")
	profile, err := placement.NewProfile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &deviceCrowd{
		crowdFacts: crowdFacts{store: state.New()}, profile: profile,
		claims: map[string]*resourcev1.ResourceClaim{}, promised: map[string]string{},
	}
	w.apply(t, events.KindDeviceClass, &resourcev1.DeviceClass{ObjectMeta: metaOf("c")})
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		w.drawNode(t, fmt.Sprintf("n%d", i))
	}
	if rapid.IntRange(0, 3).Draw(t, "reach") == 0 {
		w.pool(t, "all", "", rapid.IntRange(1, 2).Draw(t, "devices of all"))
	}
	for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
		w.drawUser(t, fmt.Sprintf("p%d", i))
	}
	for _, claim := range w.claims {
		w.apply(t, events.KindResourceClaim, claim)
	}
	return w
}

func (w *deviceCrowd) drawNode(t *rapid.T, name string) {
	obj := &corev1.Node{ObjectMeta: metaOf(name)}
	obj.Labels = map[string]string{corev1.LabelHostname: name}
	obj.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI)}
	w.nodes = append(w.nodes, state.NewNodeInfo(state.NewNode(obj)))
	w.pool(t, name, name, rapid.IntRange(0, 3).Draw(t, "devices"))
}

// pool makes devices of one node, or of all nodes.
func (w *deviceCrowd) pool(t *rapid.T, name, node string, size int) {
	s := &resourcev1.ResourceSlice{ObjectMeta: metaOf(name), Spec: resourcev1.ResourceSliceSpec{
		Driver: "d", Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1},
	}}
	if all := true; node == "" {
		s.Spec.AllNodes = &all
	} else {
		s.Spec.NodeName = &node
	}
	for i := range size {
		device := fmt.Sprint("d", i)
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: device})
		w.free = append(w.free, resourcev1.DeviceRequestAllocationResult{
			Request: "r", Driver: "d", Pool: name, Device: device,
		})
	}
	w.apply(t, events.KindResourceSlice, s)
}

// drawUser makes a pod on a node that uses a claim with a device that can be used there, its own claim or an
// earlier pod's; or a pod without claims.
func (w *deviceCrowd) drawUser(t *rapid.T, name string) {
	n := rapid.SampledFrom(w.nodes).Draw(t, "on")
	reaches := func(r resourcev1.DeviceRequestAllocationResult) bool { return r.Pool == n.Node.Name || r.Pool == "all" }
	priority := rapid.SampledFrom([]int32{0, 5, 10, 100}).Draw(t, "priority")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, UID: types.UID("uid-" + name)}}
	pod.Spec.Priority = &priority
	at := slices.IndexFunc(w.free, reaches)
	var shared []string
	for claim, c := range w.claims {
		if w.promised[claim] == "" && reaches(c.Status.Allocation.Devices.Results[0]) {
			shared = append(shared, claim)
		}
	}
	slices.Sort(shared)
	claim := "c-" + name
	switch {
	case len(shared) > 0 && rapid.IntRange(0, 3).Draw(t, "shares") == 0:
		claim = rapid.SampledFrom(shared).Draw(t, "with")
	case at >= 0:
		c := &resourcev1.ResourceClaim{ObjectMeta: metaOf(claim)}
		c.Namespace = "x"
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{w.free[at]},
		}}
		w.free = slices.Delete(w.free, at, at+1)
		w.claims[claim] = c
	default:
		claim = ""
	}
	if claim != "" {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimName: &claim}}
	}
	if c := w.claims[claim]; c != nil && len(c.Status.ReservedFor) == 0 && rapid.IntRange(0, 4).Draw(t, "reserved") == 0 {
		w.promised[claim] = string(pod.UID)
	} else if c != nil {
		pod.Spec.NodeName = n.Node.Name
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
			Resource: "pods", Name: name, UID: pod.UID,
		})
	}
	p := state.NewPod(pod)
	w.pods = append(w.pods, p)
	n.AddPod(p)
}

// objectsWithout returns the facts and promises for the case that some pods are gone.
func (w *deviceCrowd) objectsWithout(t *rapid.T, gone ...*state.Pod) rule.Objects {
	isGone := func(uid types.UID) bool {
		return slices.ContainsFunc(gone, func(p *state.Pod) bool { return p.UID == string(uid) })
	}
	copied := crowdFacts{store: state.New()}
	for o := range w.store.Snapshot().Objects(events.KindResourceSlice) {
		copied.apply(t, events.KindResourceSlice, o.API.(*resourcev1.ResourceSlice))
	}
	copied.apply(t, events.KindDeviceClass, &resourcev1.DeviceClass{ObjectMeta: metaOf("c")})
	promises := map[string]*resourcev1.AllocationResult{}
	for name, c := range w.claims {
		c = c.DeepCopy()
		users := len(c.Status.ReservedFor)
		c.Status.ReservedFor = slices.DeleteFunc(c.Status.ReservedFor,
			func(r resourcev1.ResourceClaimConsumerReference) bool { return isGone(r.UID) })
		switch {
		case w.promised[name] != "":
			if !isGone(types.UID(w.promised[name])) {
				promises[name] = c.Status.Allocation
			}
			c.Status.Allocation = nil
		case users > 0 && len(c.Status.ReservedFor) == 0:
			c.Status.Allocation = nil
		}
		copied.apply(t, events.KindResourceClaim, c)
	}
	wanted := w.wantedClaim()
	copied.apply(t, events.KindResourceClaim, wanted)
	facts := copied.store.Snapshot()
	index := &devices.Index{}
	index.Fill(facts)
	for name, a := range promises {
		index.Promise("uid-"+name, w.promised[name], a)
	}
	return ownIndex{facts, index}
}

func (w *deviceCrowd) wantedClaim() *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metaOf("wanted")}
	claim.Namespace = "x"
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "c", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
	}}}
	return claim
}

// fits evaluates the rules on a cluster in which pods are gone and Kubernetes has updated their claims.
func (w *deviceCrowd) fits(t *rapid.T, pod *state.Pod, on *state.NodeInfo, gone ...*state.Pod) bool {
	n := on.Clone()
	for _, p := range gone {
		n.RemovePod(p.UID)
	}
	r := w.profile.Evaluate(placement.Input{
		Pod: pod, Nodes: []*state.NodeInfo{n}, Candidates: []*state.NodeInfo{n}, Objects: w.objectsWithout(t, gone...),
	})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.FeasibleCount > 0
}

func (w *deviceCrowd) preemptor(priority int32) *state.Pod {
	name := "wanted"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "preemptor", UID: "preemptor"}}
	pod.Spec.Priority = &priority
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimName: &name}}
	return state.NewPod(pod)
}

// less returns the pods on a node that are less important than pod.
func less(n *state.NodeInfo, pod *state.Pod) (list []*state.Pod) {
	for p := range n.Pods() {
		if p.Priority < pod.Priority {
			list = append(list, p)
		}
	}
	return list
}

// TestDevicesOfVictims checks that the pod has devices with all victims gone, and none with one of them left; that
// no other pod uses what it gets; that no pod is evicted where that would not help; and that where no pod is
// evicted, evicting would not help.
func TestDevicesOfVictims(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := drawDeviceCrowd(t)
		pod := w.preemptor(rapid.SampledFrom([]int32{5, 10, 100, 1000}).Draw(t, "important"))
		if slices.ContainsFunc(w.nodes, func(n *state.NodeInfo) bool { return w.fits(t, pod, n) }) {
			seen["fits"]++
			return
		}
		objects := w.objectsWithout(t)
		before := devices.IndexOf(objects).String()
		r := Run(w.profile, Input{Input: placement.Input{Pod: pod, Nodes: w.nodes, Objects: objects}})
		if after := devices.IndexOf(objects).String(); r.Err != nil || after != before {
			t.Fatalf("%v; of devices it is known\n%s\nand was\n%s", r.Err, after, before)
		}
		if r.Node == nil {
			seen["in vain"]++
			for _, n := range w.nodes {
				if w.fits(t, pod, n, less(n, pod)...) {
					t.Fatalf("%q, and it would fit on %s without %v", r.Message, n.Node.Name, less(n, pod))
				}
			}
			return
		}
		var victims []*state.Pod
		for _, v := range r.Victims {
			victims = append(victims, v.Pod)
			if v.Reserved {
				seen["reserved"]++
			}
		}
		seen["room"]++
		if !w.fits(t, pod, r.Node, victims...) {
			t.Fatalf("victims %v, and it does not fit on %s when they are gone", victims, r.Node.Node.Name)
		}
		for i := range victims {
			if w.fits(t, pod, r.Node, slices.Delete(slices.Clone(victims), i, i+1)...) {
				t.Fatalf("%v need not go", victims[i])
			}
		}
		w.checkPicks(t, pod, r.Node.Node, victims, objects)
	})
	t.Log(seen)
	for _, what := range []string{"fits", "in vain", "room", "reserved"} {
		if seen[what] == 0 {
			t.Errorf("the input is lopsided: none is %q", what)
		}
	}
}

// checkPicks checks that no other pod uses the devices that a pod gets, once the victims are gone.
func (w *deviceCrowd) checkPicks(
	t *rapid.T, pod *state.Pod, node *state.Node, victims []*state.Pod, objects rule.Objects,
) {
	picks, ok := w.profile.DevicePicks(pod, node, objects, 1, victims...)
	if !ok || len(picks) != 1 || picks[0].Allocation == nil {
		t.Fatalf("picks %+v, %v", picks, ok)
	}
	got := picks[0].Allocation.Devices.Results[0] // it requests one
	for name, c := range w.claims {
		had := c.Status.Allocation.Devices.Results[0]
		if had.Pool != got.Pool || had.Device != got.Device {
			continue
		}
		users := []string{w.promised[name]}
		for _, u := range c.Status.ReservedFor {
			users = append(users, string(u.UID))
		}
		for _, uid := range users {
			if uid != "" && !slices.ContainsFunc(victims, func(p *state.Pod) bool { return p.UID == uid }) {
				t.Fatalf("it gets %s/%s of claim %s, which %s uses", got.Pool, got.Device, name, uid)
			}
		}
	}
}

// A profile that keeps devices evicts no pod for a device, as kube-scheduler: neither where only a device is
// lacking, nor where resources are lacking as well.
func TestDevicesAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawDeviceCrowd(t)
		pod := w.preemptor(1000)
		if slices.ContainsFunc(w.nodes, func(n *state.NodeInfo) bool { return w.fits(t, pod, n) }) {
			return
		}
		if rapid.Bool().Draw(t, "full") {
			for _, n := range w.nodes {
				obj := n.Node.Object.DeepCopy()
				obj.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(int64(n.PodCount()), resource.DecimalSI)
				n.SetNode(state.NewNode(obj))
			}
		}
		cfg := placement.DefaultProfile("default-scheduler")
		cfg.Preemption.KeepDevices = true
		profile, err := placement.NewProfile(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r := Run(profile, Input{Input: placement.Input{Pod: pod, Nodes: w.nodes, Objects: w.objectsWithout(t)}})
		if r.Err != nil || r.Node != nil {
			t.Fatalf("%+v, want nobody to go", r)
		}
	})
}
