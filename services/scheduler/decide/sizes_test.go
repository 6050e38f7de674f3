package decide_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// withPorts gives a pod host ports, from one on: 2,500 of them take some 50 KiB of a document.
func withPorts(first, n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i := range n {
			p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{
				HostPort: int32(first + i), ContainerPort: int32(first + i), Protocol: corev1.ProtocolTCP,
			})
		}
	}
}

// failures returns the messages of failed attempts, by pod name.
func (w *world) failures() map[string]string {
	messages := map[string]string{}
	for _, s := range w.shards {
		for _, d := range s.decisions {
			if d.Kind == events.DecisionFailed {
				messages[d.Pod.Name] = d.Message
			}
		}
	}
	return messages
}

// together offers all pods to the only shard at once, and makes it decide them.
func (w *world) together() {
	w.settle()
	w.offer()
	w.settle()
}

// addPlainPods are pods that need nothing special.
func (w *world) addPlainPods(n int) {
	for i := range n {
		w.addPod(fmt.Sprintf("p%02d", i))
	}
}

// In one transaction with small pods, a pod whose reservation no document has room for fails alone, with a message.
func TestHugePodFailsAlone(t *testing.T) {
	for name, c := range map[string]struct {
		huge    func(w *world) func(*corev1.Pod)
		message string
	}{
		"host ports":        {func(*world) func(*corev1.Pod) { return withPorts(1, 9000) }, "9000 host ports"},
		"claims to volumes": {func(w *world) func(*corev1.Pod) { return w.withClaims(250) }, "250 volume claims"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 1)
			w.addNode("n0", 100)
			w.addPlainPods(10)
			w.addPod("p10-huge", c.huge(w))
			for i := 11; i < 21; i++ {
				w.addPod(fmt.Sprintf("p%02d", i))
			}
			w.together()
			failures := w.failures()
			if got := len(w.reservations()); got != 20 || len(failures) != 1 {
				t.Fatalf("%d of 20 pods that need little are reserved; told: %q", got, failures)
			}
			message := failures["p10-huge"]
			if !strings.Contains(message, c.message) || !strings.Contains(message, fmt.Sprint(ledger.MaxEntryBytes)) {
				t.Errorf("the huge pod is told %q, want %q and the limit", message, c.message)
			}
		})
	}
}

// withClaims gives a pod claims whose volumes are provisioned on its node, with the longest names.
func (w *world) withClaims(n int) func(*corev1.Pod) {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	w.addObject(events.KindStorageClass, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "late"}, VolumeBindingMode: &mode, Provisioner: "disk.example.com",
	})
	var volumes []corev1.Volume
	for i := range n {
		claim := fmt.Sprintf("%0253d", i)
		w.addClaim(claim, "late", "", corev1.ReadWriteOnce)
		volumes = append(volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return func(p *corev1.Pod) { p.Spec.Volumes = volumes }
}

// Large documents are sent in as many transactions as they need, none of them beyond the limit.
func TestBatchesEndWhereTheTransactionIsFull(t *testing.T) {
	const pods = 24
	w := newWorld(t, 1, 1)
	for i := range pods {
		w.addNode(fmt.Sprintf("n%02d", i), 1)
		w.addPod(fmt.Sprintf("p%02d", i), withPorts(1, 2500))
	}
	largest := 0
	w.ablate = func(txn ledger.Txn) ledger.Txn {
		largest = max(largest, txn.Bytes())
		return txn
	}
	w.together()
	if got := len(w.reservations()); got != pods {
		t.Errorf("%d of %d pods are reserved, told: %q", got, pods, w.failures())
	}
	if largest > ledger.MaxTxnBytes || largest < ledger.MaxTxnBytes*3/4 {
		t.Errorf("the largest transaction has %d bytes, want nearly %d", largest, ledger.MaxTxnBytes)
	}
}

// A store with a lower limit than etcd's default must not stop the shard, nor make it send the same transaction for
// ever: pods that fit the limit are placed, and larger ones get an error.
func TestStoreThatTakesLittle(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.takes = 8 << 10
	for i := range 30 {
		w.addNode(fmt.Sprintf("n%02d", i), 1)
	}
	w.addPlainPods(12)
	w.addPod("p12-large", withPorts(1, 1000))
	for i := 13; i < 25; i++ {
		w.addPod(fmt.Sprintf("p%02d", i))
	}
	w.together()
	failures := w.failures()
	if got := len(w.reservations()); got != 24 || len(failures) != 1 {
		t.Fatalf("%d of 24 pods that need little are reserved; told: %q", got, failures)
	}
	if message := failures["p12-large"]; !strings.Contains(message, "the store takes 8192 bytes") {
		t.Errorf("the large pod is told %q, want what the store takes", message)
	}
	// The limit is raised: the pod is placed when it is offered again.
	w.takes = 0
	w.together()
	if got := len(w.reservations()); got != 25 {
		t.Errorf("%d of 25 pods are reserved, told: %q", got, w.failures())
	}
}

// A node whose document has no room for a pod must not make the shard loop: the pod waits until there is room, and
// fails with a message in the end.
func TestDocumentWithoutRoomForOneMore(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.addNode("n0", 10)
	for i := range 3 {
		w.addPod(fmt.Sprintf("p%d", i), withPorts(1+3000*i, 2000))
	}
	w.together()
	if got := w.reservations(); len(got) != 1 {
		t.Fatalf("reserved %v, want one pod: the document has no room for more", got)
	}
	for range 8 {
		w.bindOne()
		w.settle()
		w.offer()
		w.settle()
	}
	bound := 0
	for _, p := range w.pods {
		if p.Spec.NodeName != "" {
			bound++
		}
	}
	if bound != 3 {
		t.Errorf("%d of 3 pods are bound", bound)
	}
	for name, message := range w.failures() {
		if !strings.Contains(message, "document of node n0") {
			t.Errorf("pod %s is told %q", name, message)
		}
	}
}

// A refusal of a transaction for its size fails no pod whose own transaction would be small enough, even if answers
// to other transactions are lost.
func TestRefusalsAndLostAnswers(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, seed, 2)
		w.takes = 4 << 10
		for i := range 12 {
			w.addNode(fmt.Sprintf("n%02d", i), 2)
		}
		w.addPlainPods(20)
		w.addPod("large", withPorts(1, 1000))
		for range 6 {
			w.together()
		}
		if got := len(w.reservations()); got != 20 {
			t.Errorf("seed %d: %d of 20 pods are reserved, told: %q", seed, got, w.failures())
		}
	}
}

// A pod whose claim has the largest configuration allowed is placed on a node with devices: its reservation has
// hashes instead of the configuration. A small configuration is part of the reservation.
func TestLargeConfigurationOfDevices(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.addNode("n0", 10)
	w.addDevices("n0", 2)
	for name, size := range map[string]int{"small": 100, "large": resourcev1.OpaqueParametersMaxLength} {
		w.configuredClaim("c-"+name, size)
		w.addPod(name, usingDevices("c-"+name))
	}
	w.together()
	docs := w.docs()
	if len(docs) != 1 || len(docs[0].Entries) != 2 {
		t.Fatalf("documents %+v, want two reservations; told: %q", docs, w.failures())
	}
	for _, e := range docs[0].Entries {
		pick := e.Devices[0]
		var a resourcev1.AllocationResult
		if err := a.Unmarshal(pick.Allocation); err != nil {
			t.Fatal(err)
		}
		size, hashes := len(a.Devices.Config[0].Opaque.Parameters.Raw), len(pick.ConfigHashes)
		if small := size == 100 && hashes == 0; small != (e.Name == "small") {
			t.Errorf("pod %s: parameters of %d bytes and %d hashes in an allocation of %d bytes",
				e.Name, size, hashes, len(pick.Allocation))
		}
		if e.Name == "large" && (size > 0 || hashes != resourcev1.DeviceConfigMaxSize) {
			t.Errorf("pod %s: parameters of %d bytes and %d hashes", e.Name, size, hashes)
		}
	}
}

// configuredClaim adds a claim to one device, with the maximum number of configurations, all of one size.
func (w *world) configuredClaim(name string, size int) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "c", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
	}}}
	for i := range resourcev1.DeviceConfigMaxSize {
		start := fmt.Sprintf(`{"n":%2d,"x":"`, i)
		raw := start + strings.Repeat("x", size-len(start)-2) + `"}`
		claim.Spec.Devices.Config = append(claim.Spec.Devices.Config, resourcev1.DeviceClaimConfiguration{
			DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
				Driver: "d", Parameters: runtime.RawExtension{Raw: []byte(raw)},
			}},
		})
	}
	w.addObject(events.KindResourceClaim, claim)
}
