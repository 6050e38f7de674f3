package commit

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

const (
	bindCompleted = "pv.kubernetes.io/bind-completed"
	selectedNode  = "volume.kubernetes.io/selected-node"
)

// store is a cluster with claim c0, for which there is volume v0, and claim c1, for which a volume must be created.
func store() *fake.Clientset {
	claim := func(name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		}
	}
	return fake.NewClientset(claim("c0"), claim("c1"), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v0", UID: "uid-v0", ResourceVersion: "1"},
	})
}

func executorOf(client *fake.Clientset) *Executor {
	return New(1, Deps{API: APIOf(client), Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}})
}

func twoClaims(written bool) effect.Bind {
	return effect.Bind{Op: 7, Pod: thePod, NodeName: "n", Volumes: &effect.VolumeWork{
		Picks:      []ledger.VolumePick{{Claim: "c0", Volume: "v0"}, {Claim: "c1"}},
		NodeLabels: map[string]string{corev1.LabelHostname: "n"}, Written: written,
	}}
}

// A claim that was deleted and created again is a different one: its pod is placed again, and nothing is written. For
// a claim that has its volume, only this is checked. A member of an earlier version names no UID; then the claim's
// name counts.
func TestClaimMadeAgainIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		pick ledger.VolumePick
		want effect.Result
	}{
		"another, to be bound": {ledger.VolumePick{Claim: "c0", Volume: "v0", ClaimUID: "uid-before"}, effect.Refused},
		"another, to be made":  {ledger.VolumePick{Claim: "c1", ClaimUID: "uid-before"}, effect.Refused},
		"another, with volume": {ledger.VolumePick{Claim: "c0", ClaimUID: "uid-before", HasVolume: true}, effect.Refused},
		"the same, with one":   {ledger.VolumePick{Claim: "c0", ClaimUID: "uid-c0", HasVolume: true}, effect.Done},
		"the same, to be made": {ledger.VolumePick{Claim: "c1", ClaimUID: "uid-c1"}, effect.Waiting},
		"of an earlier member": {ledger.VolumePick{Claim: "c1"}, effect.Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			client, bind := store(), twoClaims(false)
			bind.Volumes.Picks = []ledger.VolumePick{c.pick}
			answer := executorOf(client).bindings.volumes.prepare(t.Context(), bind)
			if answer.Result != c.want {
				t.Errorf("%+v, want %s", answer, c.want)
			}
			for _, a := range client.Actions() {
				if a.GetVerb() == "patch" && c.want != effect.Waiting {
					t.Errorf("written: %+v", a)
				}
			}
		})
	}
}

// binds does what the controllers do with what has been written.
func binds(ctx context.Context, t *testing.T, client *fake.Clientset, affinity *corev1.VolumeNodeAffinity) {
	t.Helper()
	volume, err := client.CoreV1().PersistentVolumes().Get(ctx, "v0", metav1.GetOptions{})
	if err != nil || volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.Name != "c0" {
		t.Fatalf("volume v0 is for %+v (%v), want claim c0", volume.Spec.ClaimRef, err)
	}
	made := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "made"}}
	made.Spec.NodeAffinity = affinity
	if _, err := client.CoreV1().PersistentVolumes().Create(ctx, made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, volume := range map[string]string{"c0": "v0", "c1": "made"} {
		claim, err := client.CoreV1().PersistentVolumeClaims("ns").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if name == "c1" && claim.Annotations[selectedNode] != "n" {
			t.Fatalf("claim c1 has annotations %v, want node n selected", claim.Annotations)
		}
		claim.Spec.VolumeName = volume
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, bindCompleted, "yes")
		if _, err := client.CoreV1().PersistentVolumeClaims("ns").Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestVolumesAreBoundAfterACrashAtEachWrite: a binder dies before or after any of its writes, or does not receive the
// answer; the next one does the rest, and nothing twice.
func TestVolumesAreBoundAfterACrashAtEachWrite(t *testing.T) {
	for at := range 3 { // before the first write, the second, or none
		for _, happened := range []bool{false, true} {
			client, writes := store(), 0
			client.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
				writes++
				if writes-1 != at {
					return false, nil, nil
				}
				if happened {
					if _, _, err := clienttesting.ObjectReaction(client.Tracker())(a); err != nil {
						t.Error(err)
					}
				}
				return true, nil, errors.New("the connection is gone")
			})
			first := executorOf(client).bindings.volumes.prepare(t.Context(), twoClaims(false))
			if want := effect.Unknown; at < 2 && first.Result != want {
				t.Fatalf("crash at write %d: %+v, want %s", at, first, want)
			}
			next := executorOf(client).bindings.volumes.prepare(t.Context(), twoClaims(false))
			if next.Result != effect.Waiting || next.Op != 7 {
				t.Fatalf("crash at write %d: the next binder gets %+v, want to wait for the controllers", at, next)
			}
			if most := 3; writes > most || at == 2 && writes != 2 {
				t.Errorf("crash at write %d (happened: %v): %d writes", at, happened, writes)
			}
			binds(t.Context(), t, client, nil)
			if done := executorOf(client).bindings.volumes.prepare(t.Context(), twoClaims(true)); done.Result != effect.Done {
				t.Errorf("crash at write %d: %+v in the end, want it done", at, done)
			}
		}
	}
}

func TestVolumesThatCannotBeHad(t *testing.T) {
	claims := func(change func(*corev1.PersistentVolumeClaim)) func(*testing.T, *fake.Clientset) {
		return func(t *testing.T, client *fake.Clientset) {
			t.Helper()
			claim, err := client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "c1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			change(claim)
			_, err = client.CoreV1().PersistentVolumeClaims("ns").Update(t.Context(), claim, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		before  func(*testing.T, *fake.Clientset)
		written bool
		want    string
	}{
		"the claim is gone": {func(t *testing.T, client *fake.Clientset) {
			t.Helper()
			err := client.CoreV1().PersistentVolumeClaims("ns").Delete(t.Context(), "c0", metav1.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}, false, "claim c0 is gone"},
		"the volume is gone": {func(t *testing.T, client *fake.Clientset) {
			t.Helper()
			if err := client.CoreV1().PersistentVolumes().Delete(t.Context(), "v0", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, false, "volume v0 is gone"},
		"the volume is another's": {func(t *testing.T, client *fake.Clientset) {
			t.Helper()
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v0", UID: "uid-v0"}}
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "other", UID: "u"}
			if _, err := client.CoreV1().PersistentVolumes().Update(t.Context(), v, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}, false, "volume v0 is bound to claim ns/other"},
		"another node is selected": {claims(func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{selectedNode: "m"}
		}), false, "a volume for claim c1 is being provisioned for node m"},
		"the volume was taken back": {func(*testing.T, *fake.Clientset) {}, true, "volume v0 was released from claim c0"},
	} {
		t.Run(name, func(t *testing.T) {
			client := store()
			test.before(t, client)
			got := executorOf(client).bindings.volumes.prepare(t.Context(), twoClaims(test.written))
			if got.Result != effect.Refused || got.Problem != test.want {
				t.Errorf("%+v, want it refused: %s", got, test.want)
			}
		})
	}
}

// The volume that the provisioner created cannot be used on the pod's node.
func TestVolumeMadeElsewhere(t *testing.T) {
	client := store()
	room := executorOf(client)
	if got := room.bindings.volumes.prepare(t.Context(), twoClaims(false)); got.Result != effect.Waiting {
		t.Fatalf("%+v, want to wait", got)
	}
	binds(t.Context(), t, client, &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"m"}},
		}}},
	}})
	got := room.bindings.volumes.prepare(t.Context(), twoClaims(true))
	if got.Result != effect.Refused || got.Problem != "volume made of claim c1 cannot be used on node n" {
		t.Errorf("%+v, want it refused", got)
	}
}
