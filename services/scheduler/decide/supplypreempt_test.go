package decide_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// addDevices publishes devices of a node, of a class that selects all devices.
func (w *world) addDevices(node string, devices int) {
	w.addObject(events.KindDeviceClass, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "d", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
	}}
	for i := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint(i)})
	}
	w.addObject(events.KindResourceSlice, s)
}

// deviceClaim writes a claim to one device; it has the given device unless there are no users.
func (w *world) deviceClaim(name, node, device string, users ...string) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "c", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
	}}}
	if len(users) > 0 {
		claim.Finalizers = []string{resourcev1.Finalizer}
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: node, Device: device}},
		}}
	}
	for _, uid := range users {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
			Resource: "pods", Name: uid, UID: types.UID(uid),
		})
	}
	w.addObject(events.KindResourceClaim, claim)
}

func usingDevices(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimName: &claim}}
	}
}

// device returns the device that a reservation promises.
func (st *scenario) device(e ledger.Entry) string {
	st.t.Helper()
	if len(e.Devices) != 1 {
		st.t.Fatalf("reservation with devices %+v, want one claim's", e.Devices)
	}
	var a resourcev1.AllocationResult
	if err := a.Unmarshal(e.Devices[0].Allocation); err != nil {
		st.t.Fatal(err)
	}
	return a.Devices.Results[0].Pool + "/" + a.Devices.Results[0].Device
}

// deviceScenario has two devices on n0, in claims of v and of another, more important pod.
func deviceScenario(t *testing.T, users ...string) (st *scenario, v string) {
	st = newScenario(t, 2, 2, 10)
	st.addDevices("n0", 2)
	v = st.running("v", "n0", important(1), usingDevices("cv"))
	other := st.running("other", "n0", important(5), usingDevices("co"))
	st.deviceClaim("cv", "n0", "0", append(users, v)...)
	st.deviceClaim("co", "n0", "1", other)
	st.deliverAll()
	return st, v
}

// wants adds a pod with its own claim to a device.
func (st *scenario) wants(name string, priority int32) string {
	st.deviceClaim("c"+name, "", "")
	st.deliverFacts()
	return st.pod(name, important(priority), usingDevices("c"+name))
}

// For a pod that finds no device, the least important pod that uses a device alone is evicted. The device is
// promised to the pod from then on, and becomes its own when Kubernetes has taken it back from the victim's claim.
func TestDevicesOfAVictim(t *testing.T) {
	st, v := deviceScenario(t)
	p := st.wants("p", 10)
	st.runUntilQuiet()
	doc, hold, ok := st.hold(p)
	if _, claimed := st.claims()[v]; !ok || !claimed || hold.State != ledger.Held || doc.NodeName != "n0" {
		t.Fatalf("hold %+v on %q, victims %+v; want a place on n0 for that of v", hold, doc.NodeName, st.claims())
	}
	if got := st.device(hold); got != "n0/0" {
		t.Errorf("it is promised %s, want that of the victim", got)
	}
	st.mark(p)
	st.deletePod(v)
	st.runUntilQuiet()
	if _, hold, _ = st.hold(p); hold.State != ledger.Held {
		t.Fatalf("%s as long as the claim of the victim has the device", hold.State)
	}
	q := st.wants("q", 0)
	st.deviceClaim("cv", "", "") // the work of the controller for claims
	st.runUntilQuiet()
	st.offerAgain(q)
	st.runUntilQuiet()
	_, hold, _ = st.hold(p)
	if _, _, got := st.hold(q); got || hold.State != ledger.Committed || st.device(hold) != "n0/0" {
		t.Errorf("hold %+v, the other has one: %v; want the device to be that of the pod it was held for", hold, got)
	}
	last := st.s.decisions[len(st.s.decisions)-1]
	if last.Pod.UID != q || last.Kind != events.DecisionFailed {
		t.Errorf("%+v, want the other to be tried again: what becomes of the promise no event tells", last)
	}
}

// The pod's devices are picked again when the victim has gone: the device that was promised to it may belong to
// another pod then.
func TestDevicesOfAVictimArePickedAgain(t *testing.T) {
	st, v := deviceScenario(t)
	p := st.wants("p", 10)
	st.runUntilQuiet()
	st.mark(p)
	st.deletePod(v)
	foreign := st.running("foreign", "n0", important(5), usingDevices("cf"))
	st.deviceClaim("cf", "n0", "0", foreign)
	st.deviceClaim("cv", "", "")
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Held {
		t.Fatalf("%s as long as there is no device", hold.State)
	}
	st.deviceClaim("co", "", "")
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Committed || st.device(hold) != "n0/1" {
		t.Errorf("%+v, want the device that is free", hold)
	}
}

// A pod that is decided while a promotion is in flight has not counted the devices that the promotion picks again.
//
//  1. A place on n0 is held for p, which is promised the device of its victim, n0/1.
//  2. All who had devices have gone. The promotion picks n0/0, which comes first, and has no answer yet.
//  3. The shard decides q. By the ledger n0/1 is taken, and q is staged with n0/0.
//  4. The promotion is carried out. q must not be placed with the device that p has got.
func TestPickedWhileAPromotionPicksAgain(t *testing.T) {
	st := newScenario(t, 2, 2, 10)
	st.addDevices("n0", 2)
	other := st.running("other", "n0", important(5), usingDevices("co"))
	v := st.running("v", "n0", important(1), usingDevices("cv"))
	st.deviceClaim("co", "n0", "0", other)
	st.deviceClaim("cv", "n0", "1", v)
	st.deliverAll()
	p := st.wants("p", 10)
	st.runUntilQuiet()
	st.mark(p)
	st.runUntilQuiet()
	for claim, pod := range map[string]string{"co": other, "cv": v} {
		st.deletePod(pod)
		st.deviceClaim(claim, "", "")
	}
	st.deliverAll()
	if st.s.commit == nil || st.s.commit.Kind != "T3" {
		t.Fatalf("in flight: %+v, want a T3", st.s.commit)
	}
	q := st.wants("q", 0)
	st.runUntilQuiet()
	_, hold, _ := st.hold(p)
	_, entry, placed := st.hold(q)
	if hold.State != ledger.Committed || !placed {
		t.Fatalf("reservations %+v and %+v, want both placed", hold, entry)
	}
	if of, and := st.device(hold), st.device(entry); of == and {
		t.Errorf("both pods are promised device %s", of)
	}
}

// A plan does not wait for ever for devices that Kubernetes does not take back.
func TestDevicesOfAVictimThatStayTaken(t *testing.T) {
	st, v := deviceScenario(t)
	p := st.wants("p", 10)
	st.runUntilQuiet()
	st.mark(p)
	st.deletePod(v)
	st.runUntilQuiet()
	st.wait(31 * time.Second)
	st.runUntilQuiet()
	if _, hold, reserved := st.hold(p); reserved && hold.State == ledger.Held {
		t.Errorf("%+v is held still", hold)
	}
}

// Evicting one user of a claim that a more important pod uses as well frees no devices.
func TestSharedDevicesFreeNothing(t *testing.T) {
	st, v := deviceScenario(t, "pod-important")
	st.running("important", "n0", important(100), usingDevices("cv"))
	st.deliverAll()
	p := st.wants("p", 3)
	st.runUntilQuiet()
	if _, hold, held := st.hold(p); held || len(st.claims()) > 0 {
		t.Errorf("hold %+v, victims %+v of %s: want nobody to go", hold, st.claims(), v)
	}
}

// The same holds for a claim that another pod is about to use, as only the ledger shows.
func TestDevicesThatAreJoinedFreeNothing(t *testing.T) {
	st, v := deviceScenario(t)
	joins := st.pod("joins", important(100), usingDevices("cv"))
	st.runUntilQuiet()
	if _, e, ok := st.hold(joins); !ok || len(e.Devices) != 1 || len(e.Devices[0].Allocation) > 0 {
		t.Fatalf("%+v, want it to use the claim there is", e)
	}
	p := st.wants("p", 3)
	st.runUntilQuiet()
	if _, hold, held := st.hold(p); held || len(st.claims()) > 0 {
		t.Errorf("hold %+v, victims %+v of %s: want nobody to go", hold, st.claims(), v)
	}
}

// A single-pod claim is taken from a less important pod, and no other pod gets it in between.
func TestClaimForOneIsTakenFromAVictim(t *testing.T) {
	st := newScenario(t, 2, 3, 10)
	st.addVolume("pv", "c", "")
	st.addClaim("one", "c", "pv", corev1.ReadWriteOncePod)
	v := st.running("v", "n1", important(1), usingClaim("one"))
	st.deliverAll()
	p := st.pod("p", important(10), usingClaim("one"))
	st.runUntilQuiet()
	doc, hold, ok := st.hold(p)
	if _, claimed := st.claims()[v]; !ok || !claimed || hold.State != ledger.Held || doc.NodeName != "n1" {
		t.Fatalf("hold %+v on %q, victims %+v; want a place on n1 for v", hold, doc.NodeName, st.claims())
	}
	x := st.claimForOne()
	if len(x.Holders) != 1 || x.Holders[0].PodUID != p {
		t.Fatalf("the claim is held by %+v, want the pod that it is cleared for", x.Holders)
	}
	x.Holders[0].Later = "\xc0\x3e\x07" // field 1000, a varint of 7
	st.rewrite(x)
	st.mark(p)
	q := st.pod("q", important(5), usingClaim("one"))
	st.deletePod(v)
	st.runUntilQuiet()
	_, hold, _ = st.hold(p)
	if _, _, got := st.hold(q); got || hold.State != ledger.Committed {
		t.Errorf("hold %+v, the other has one: %v; want it placed", hold, got)
	}
	if after := st.claimForOne(); len(after.Holders) != 1 || after.Holders[0].Later != x.Holders[0].Later {
		t.Errorf("the claim is held by %+v, want the fields of a later version as they were", after.Holders)
	}
}

// claimForOne returns the document of the only claim, by its name.
func (st *scenario) claimForOne() ledger.ExclusiveDoc {
	st.t.Helper()
	kvs, _, err := st.store.List(st.t.Context(), ledger.KeyVolumeClaim("d", ""))
	if err != nil || len(kvs) != 1 {
		st.t.Fatalf("%d documents of claims, %v", len(kvs), err)
	}
	x, err := codec.DecodeExclusive(kvs[0])
	if err != nil {
		st.t.Fatal(err)
	}
	return x
}

// rewrite writes the document of a claim, like a member of a later version.
func (st *scenario) rewrite(x ledger.ExclusiveDoc) {
	st.t.Helper()
	value, err := codec.EncodeExclusive(x)
	if err != nil {
		st.t.Fatal(err)
	}
	if !st.commit(ledger.Txn{Puts: []ledger.Put{{Key: x.Key, Value: value}}}).Succeeded {
		st.t.Fatalf("the document of %s did not change", x.Key)
	}
}

// A user of the claim with equal priority stays.
func TestClaimForOneOfAnEqual(t *testing.T) {
	st := newScenario(t, 2, 3, 10)
	st.addVolume("pv", "c", "")
	st.addClaim("one", "c", "pv", corev1.ReadWriteOncePod)
	st.running("v", "n1", important(10), usingClaim("one"))
	st.deliverAll()
	p := st.pod("p", important(10), usingClaim("one"))
	st.runUntilQuiet()
	if _, hold, held := st.hold(p); held || len(st.claims()) > 0 {
		t.Errorf("hold %+v, victims %+v: want nobody to go", hold, st.claims())
	}
}
