package lease

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestParse(t *testing.T) {
	if got, err := Parse("kube-system/kube-scheduler"); err != nil || got != (Ref{"kube-system", "kube-scheduler"}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "kube-scheduler", "/x", "x/", "a/b/c"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

// keeperOf returns a keeper with a client of a test.
func keeperOf(t *testing.T, client *fake.Clientset, identity string) *Keeper {
	t.Helper()
	k, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, Ref{"kube-system", "kube-scheduler"}, identity,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	k.config.Lock.(*resourcelock.LeaseLock).Client = client.CoordinationV1()
	return k
}

// holder returns the holder of the Lease, empty if there is none, and when it was renewed.
func holder(t *testing.T, client *fake.Clientset) (string, time.Time) {
	t.Helper()
	lease, err := client.CoordinationV1().Leases("kube-system").Get(t.Context(), "kube-scheduler", metav1.GetOptions{})
	if err != nil {
		return "", time.Time{}
	}
	return *lease.Spec.HolderIdentity, lease.Spec.RenewTime.Time
}

// TestLeaseIsKept: the one who leads holds and renews it. The next leader has it when it has expired, and not before.
func TestLeaseIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		first, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { keeperOf(t, client, "queue-a").Run(first); close(ended) }()
		time.Sleep(retryPeriod + time.Second)
		who, then := holder(t, client)
		if who != "queue-a" {
			t.Fatalf("held by %q", who)
		}
		time.Sleep(leaseDuration)
		if who, now := holder(t, client); who != "queue-a" || !now.After(then) {
			t.Errorf("held by %q, renewed at %s after %s", who, now, then)
		}
		stop()
		<-ended
		second, stop := context.WithCancel(t.Context())
		ended = make(chan struct{})
		go func() { keeperOf(t, client, "queue-b").Run(second); close(ended) }()
		time.Sleep(leaseDuration / 2)
		if who, _ := holder(t, client); who != "queue-a" {
			t.Errorf("taken by %q before it had expired", who)
		}
		time.Sleep(leaseDuration)
		if who, _ := holder(t, client); who != "queue-b" {
			t.Errorf("held by %q", who)
		}
		stop()
		<-ended
	})
}

// TestAForeignHolderIsWaitedFor: a kube-scheduler that runs keeps its Lease; the keeper goes on trying, and stops at
// once.
func TestAForeignHolderIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign, seconds := "kube-scheduler-x", int32(leaseDuration/time.Second)
		client := fake.NewClientset(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-scheduler"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &foreign, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: time.Now()},
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { keeperOf(t, client, "queue-a").Run(ctx); close(ended) }()
		time.Sleep(leaseDuration / 2)
		if who, _ := holder(t, client); who != foreign {
			t.Errorf("taken by %q", who)
		}
		before := time.Now()
		stop()
		<-ended
		if took := time.Since(before); took > 0 {
			t.Errorf("it took %s to stop", took)
		}
	})
}
