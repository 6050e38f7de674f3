package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
)

// volumeSeeds is how many interleavings the tests of single-pod claims try; oneClaims is how many such claims there
// are.
const (
	volumeSeeds = 80
	oneClaims   = 3
)

func (w *world) addObject(k events.Kind, o state.APIObject) {
	o.SetUID(types.UID(string(k) + "-" + o.GetName()))
	w.publishObject(k, o)
}

func (w *world) publishObject(k events.Kind, o state.APIObject) {
	w.rv++
	o.SetResourceVersion(fmt.Sprint(w.rv))
	raw, err := o.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	w.fact(events.Fact{
		Kind: k, Op: events.OpUpsert, UID: string(o.GetUID()), Namespace: o.GetNamespace(), Name: o.GetName(), Object: raw,
	})
}

// addClaim adds a claim, bound to the volume unless that is empty.
func (w *world) addClaim(name, class, volume string, mode corev1.PersistentVolumeAccessMode) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}}
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, VolumeName: volume, AccessModes: []corev1.PersistentVolumeAccessMode{mode},
	}
	if volume != "" {
		claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	}
	w.addObject(events.KindVolumeClaim, claim)
}

// remakeClaim deletes a claim and creates it again under its name, with the same volume, as a single-pod claim.
func (w *world) remakeClaim(name, volume string) {
	w.rv++
	uid := string(events.KindVolumeClaim) + "-" + name
	w.fact(events.Fact{
		Kind: events.KindVolumeClaim, Op: events.OpDelete, UID: uid, Namespace: "d", Name: name, ResourceVersion: w.rv,
	})
	class := ""
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "d", Name: name, UID: types.UID(uid + "-again"),
		Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
	}}
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, VolumeName: volume,
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod},
	}
	w.publishObject(events.KindVolumeClaim, claim)
}

// addVolume adds a volume that can be used on one node, or everywhere.
func (w *world) addVolume(name, class, node string) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.StorageClassName = class
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	v.Status.Phase = corev1.VolumeAvailable
	if node != "" {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
			}}},
		}}
	}
	w.addObject(events.KindPersistentVolume, v)
}

func usingClaim(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}}
	}
}

// users counts the bound pods by claim.
func (w *world) users() map[string]int {
	n := map[string]int{}
	for _, p := range w.pods {
		if p.Spec.NodeName != "" && len(p.Spec.Volumes) > 0 {
			n[p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName]++
		}
	}
	return n
}

// usedClaims returns the claims that any pod uses or would use.
func (w *world) usedClaims() map[string]bool {
	claims := map[string]bool{}
	for _, p := range w.pods {
		claims[p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName] = true
	}
	return claims
}

// shared plays one history in which pods want single-pod claims, and returns the claim that two pods had at once;
// empty for none.
func shared(w *world) string {
	for n := range 3 {
		w.addNode(fmt.Sprintf("n%d", n), 8)
	}
	for i := range oneClaims {
		w.addVolume(fmt.Sprint("pv", i), "c", "")
		w.addClaim(fmt.Sprint("one", i), "c", fmt.Sprint("pv", i), corev1.ReadWriteOncePod)
	}
	for p := range 12 {
		w.addPod(fmt.Sprintf("p%d", p), usingClaim(fmt.Sprint("one", p%oneClaims)))
	}
	w.offer()
	for range 500 {
		switch w.rng.IntN(12) {
		case 0, 1:
			w.bindOne()
		case 2:
			if w.rng.IntN(3) == 0 {
				w.offer()
			}
		case 3:
			w.removeUser()
		default:
			w.deliver()
		}
		for claim, n := range w.users() {
			if n > 1 {
				return claim
			}
		}
	}
	return ""
}

// removeUser deletes, now and then, a pod that has its claim.
func (w *world) removeUser() {
	for _, uid := range sortedPods(w.pods) {
		if w.pods[uid].Spec.NodeName != "" && len(w.pods) > 6 && w.rng.IntN(12) == 0 {
			w.deletePod(uid)
			return
		}
	}
}

// Three shards with arbitrary lag never give a single-pod claim to two pods; and once everything has been delivered,
// every wanted claim has a user.
func TestClaimsForOneHaveOneUser(t *testing.T) {
	conflicts := 0
	for seed := range uint64(volumeSeeds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := newWorld(t, seed, 3)
			if claim := shared(w); claim != "" {
				t.Fatalf("claim %s has two users", claim)
			}
			for range 6 {
				w.settle()
				w.offer()
				w.settle()
				for range 20 {
					w.bindOne()
				}
			}
			for claim := range w.usedClaims() {
				if n := w.users()[claim]; n != 1 {
					t.Errorf("claim %s has %d users in the end, want 1", claim, n)
				}
			}
			for _, s := range w.shards {
				conflicts += s.conflicts
			}
		})
	}
	if conflicts == 0 {
		t.Error("no shard ever lost a race: the test does not test what it says")
	}
	t.Logf("%d seeds, %d conflicts", volumeSeeds, conflicts)
}

// Without the compare of a claim's document two shards give it to two pods.
func TestClaimsForOneNeedTheirDocument(t *testing.T) {
	for seed := range uint64(volumeSeeds) {
		w := newWorld(t, seed, 3)
		w.ablate = func(txn ledger.Txn) ledger.Txn {
			txn.Compares = slices.DeleteFunc(slices.Clone(txn.Compares), func(c ledger.Compare) bool {
				return strings.HasPrefix(c.Key, ledger.PrefixVolume)
			})
			return txn
		}
		if shared(w) != "" {
			return
		}
	}
	t.Errorf("no history of %d breaks the promise", volumeSeeds)
}

// A decision waits behind a transaction that has no answer yet. In the meantime the claim that it depends on gets a
// user.
//
//  1. The shard stages a pod with the claim for n0, behind the transaction of another pod.
//  2. Another shard places the claim's user on n1, and the user is bound.
//  3. The shard reads of both. The claim's document promises nothing any more: the facts show the user.
//  4. The answer arrives. The staged pod must be decided again, and finds the claim in use.
func TestStagedPickEndsWithItsClaimsDocument(t *testing.T) {
	for name, collected := range map[string]bool{"stands": false, "was collected since": true} {
		t.Run(name, func(t *testing.T) { stagedPickEndsWithItsClaimsDocument(t, collected) })
	}
}

// collect deletes the documents of claims whose users have no reservation any more, once the users on a node have
// none.
func (st *scenario) collect(node string) {
	st.t.Helper()
	st.touch(node, func(d ledger.NodeDoc) ledger.NodeDoc {
		d.Entries = nil
		return d
	})
	kvs, revision, err := st.store.List(st.t.Context(), "")
	if err != nil {
		st.t.Fatal(err)
	}
	v := replica.NewView()
	batch := replica.Batch{Reset: true, KVs: kvs, Events: ledger.EventBatch{Revision: revision}}
	if _, err := v.Fold(batch); err != nil {
		st.t.Fatal(err)
	}
	var keys []string
	for key := range txns.Collectable(v) {
		if strings.HasPrefix(key, ledger.PrefixVolume) {
			keys = append(keys, key)
		}
	}
	txn, err := txns.CollectionOf(v, keys).Collect()
	if err != nil || len(txn.Deletes) == 0 || !st.commit(txn).Succeeded {
		st.t.Fatalf("not collected: %+v, %v", txn, err)
	}
}

// The claim's document does not exist when the pick is decided. If collected is true, it does not exist when the
// pick is committed either.
func stagedPickEndsWithItsClaimsDocument(t *testing.T, collected bool) {
	st := newScenario(t, 2, 3, 10)
	st.addVolume("volume", "", "")
	st.addClaim("one", "", "volume", corev1.ReadWriteOncePod)
	st.deliverAll()
	st.pod("first", onNode("n2"))
	second := st.pod("second", onNode("n0"), usingClaim("one"))
	if st.target() != "n2" {
		t.Fatalf("in flight to %q, want n2", st.target())
	}

	other := &scenario{world: st.world, s: st.shards[1]}
	other.deliverAll()
	user := other.pod("user", onNode("n1"), usingClaim("one"))
	other.answer()
	st.bind(user, "n1")
	if collected {
		st.collect("n1")
	}
	st.deliverAll()

	for range 3 {
		if st.s.commit != nil {
			st.answer()
		}
		st.deliverLedger()
	}
	if at := st.reservedAt(second); len(at) > 0 {
		t.Errorf("reserved on %q, want nowhere: %s uses the claim", at, user)
	}
	last := st.s.decisions[len(st.s.decisions)-1]
	if last.Pod.UID != second || last.Kind != events.DecisionUnplaceable {
		t.Errorf("decided last: %+v, want %s unplaceable", last, second)
	}
}

// A single-pod claim is deleted and created again under its name.
//
//  1. The other shard places first, which names the claim, on n1. The reservation is on its way to its bind.
//  2. The claim is made again, with another UID.
//  3. The shard reads that, and not yet of the reservation: it wants the claim for second.
//  4. Both pods name one claim, so one of the two reservations must not come about.
func TestClaimMadeAgainHasOneUser(t *testing.T) {
	st := newScenario(t, 2, 3, 10)
	st.addVolume("volume", "", "")
	st.addClaim("one", "", "volume", corev1.ReadWriteOncePod)
	st.deliverAll()
	other := &scenario{world: st.world, s: st.shards[1]}
	other.deliverAll()
	first := other.pod("first", onNode("n1"), usingClaim("one"))
	other.answer()
	if at := st.reservedAt(first); !slices.Equal(at, []string{"n1"}) {
		t.Fatalf("first is reserved on %q, want n1", at)
	}
	st.remakeClaim("one", "volume")
	second := st.pod("second", onNode("n0"), usingClaim("one"))
	for st.s.commit != nil {
		st.answer()
	}
	if at := st.reservedAt(second); len(at) > 0 {
		t.Errorf("second is reserved on %q beside first, want nowhere: both name one claim", at)
	}
	st.bind(first, "n1")
	st.deliverAll()
	for st.s.commit != nil {
		st.answer()
	}
	if at := st.reservedAt(second); len(at) > 0 {
		t.Errorf("second is reserved on %q in the end, want nowhere: first uses the claim", at)
	}
}

// The reservation of a pod with a single-pod claim records the UID of the claim.
func TestClaimsForOneAreNamedByUID(t *testing.T) {
	st := newScenario(t, 1, 3, 10)
	st.addVolume("volume", "", "")
	st.addClaim("one", "", "volume", corev1.ReadWriteOncePod)
	st.deliverAll()
	st.pod("user", onNode("n1"), usingClaim("one"))
	st.answer()
	for _, d := range st.docs() {
		for _, e := range d.Entries {
			want := ledger.VolumePick{Claim: "one", ClaimUID: string(events.KindVolumeClaim) + "-one", HasVolume: true}
			if len(e.Volumes) != 1 || e.Volumes[0] != want {
				t.Errorf("picks %+v, want %+v", e.Volumes, want)
			}
		}
	}
	kvs, _, err := st.store.List(t.Context(), ledger.PrefixVolume)
	if err != nil || len(kvs) != 2 {
		t.Fatalf("documents of claims %+v, %v; want one by name and one by UID", kvs, err)
	}
}

// Pods that are decided together each get a volume of their own, on their node, and the reservation records it.
func TestClaimsGetVolumesOfTheirOwn(t *testing.T) {
	w := newWorld(t, 1, 1)
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	w.addObject(events.KindStorageClass, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "local"}, VolumeBindingMode: &mode, Provisioner: "kubernetes.io/no-provisioner",
	})
	w.addObject(events.KindStorageClass, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "made"}, VolumeBindingMode: &mode, Provisioner: "disk.example.com",
	})
	for n := range 3 {
		node := fmt.Sprint("n", n)
		w.addNode(node, 8)
		w.addVolume("pv-"+node+"-a", "local", node)
		w.addVolume("pv-"+node+"-b", "local", node)
	}
	for p := range 7 { // one more than there are volumes
		w.addClaim(fmt.Sprint("c", p), "local", "", corev1.ReadWriteOnce)
		w.addPod(fmt.Sprint("p", p), usingClaim(fmt.Sprint("c", p)))
	}
	w.addClaim("m", "made", "", corev1.ReadWriteOnce)
	w.addPod("m", usingClaim("m"))
	w.offer()
	w.settle()
	had := map[string]string{}
	for _, d := range w.docs() {
		for _, e := range d.Entries {
			if len(e.Volumes) != 1 || e.Volumes[0].Claim != strings.Replace(e.Name, "p", "c", 1) {
				t.Fatalf("pod %s has %+v", e.Name, e.Volumes)
			}
			volume := e.Volumes[0].Volume
			other, taken := had[volume]
			if taken || volume != "" && !strings.HasPrefix(volume, "pv-"+d.NodeName) {
				t.Errorf("pod %s on %s has volume %q, and so has %q", e.Name, d.NodeName, volume, other)
			}
			had[volume] = e.Name
		}
	}
	if len(had) != 7 || had[""] != "m" {
		t.Errorf("volumes %v, want 6 that there are, and one to be made for pod m", had)
	}
}
