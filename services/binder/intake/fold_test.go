package intake

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// Writes to a claim without reading it first rest on these facts.
func TestClaimsAsTheFactsShowThem(t *testing.T) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "c", UID: "uid", ResourceVersion: "7", Finalizers: []string{"example.com/mine"},
	}}
	data, err := claim.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	fact := events.SequencedFact{Sequence: 1, Fact: events.Fact{
		Kind: events.KindResourceClaim, Op: events.OpUpsert, UID: "uid", Namespace: "ns", Name: "c",
		ResourceVersion: 7, Progress: 7, Object: data,
	}}
	in := inputOf(t, fact)
	got := in.Claim("ns", "c")
	if got == nil || got.UID != "uid" || got.ResourceVersion != "7" || len(got.Finalizers) != 1 {
		t.Fatalf("the claim is %+v", got)
	}
	if other := in.Claim("ns", "d"); other != nil {
		t.Fatalf("a claim that is not there is %+v", other)
	}
}

// Documents of claims for one pod are kept by name while there is a claim of the name, and by UID while there is that
// claim.
func TestDocumentsOfClaimsThatExist(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "c", UID: "uid", ResourceVersion: "7",
	}}
	data, err := claim.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	in := inputOf(t, events.SequencedFact{Sequence: 1, Fact: events.Fact{
		Kind: events.KindVolumeClaim, Op: events.OpUpsert, UID: "uid", Namespace: "ns", Name: "c",
		ResourceVersion: 7, Progress: 7, Object: data,
	}})
	for key, want := range map[string]bool{
		ledger.KeyVolumeClaim("ns", "c"): true, ledger.KeyVolumeClaim("ns", "d"): false,
		ledger.KeyVolumeClaim("other", "c"): false,
		ledger.KeyVolume("uid"):             true, ledger.KeyVolume("uid-before"): false,
	} {
		if got := in.Exists(key); got != want {
			t.Errorf("%s exists: %v, want %v", key, got, want)
		}
	}
}

// inputOf returns the input that one fact leads to.
func inputOf(t *testing.T, fact events.SequencedFact) effect.FactsChanged {
	t.Helper()
	step, err := feed.NewFolder().Fold(follow.Batch{Facts: []events.SequencedFact{fact}})
	if err != nil {
		t.Fatal(err)
	}
	return FromFacts(step)
}
