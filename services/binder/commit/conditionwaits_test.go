package commit

import (
	"encoding/json"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	testclock "k8s.io/utils/clock/testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// conditionedDevice returns the work for a pod whose claim gets a device with a binding condition and one without.
func conditionedDevice(t *testing.T) []ledger.DevicePick {
	t.Helper()
	a := resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{
			{
				Request: "r", Driver: "fabric", Pool: "p", Device: "0",
				BindingConditions: []string{"attached"}, BindingFailureConditions: []string{"broken"},
			},
			{Request: "s", Driver: "local", Pool: "p", Device: "1"},
		},
	}}
	data, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return []ledger.DevicePick{{Claim: "c0", ClaimUID: "uid-c0", ClaimRV: 10, Allocation: data}}
}

// report writes a condition of the device with conditions, as its driver would.
func report(t *testing.T, client *fake.Clientset, condition string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": "uid-c0", "resourceVersion": claimNow(t, client).ResourceVersion},
		"status": map[string]any{"devices": []resourcev1.AllocatedDeviceStatus{{
			Driver: "fabric", Pool: "p", Device: "0",
			Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "Test"}},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	claims := client.ResourceV1().ResourceClaims("ns")
	_, err = claims.Patch(t.Context(), "c0", types.MergePatchType, body, metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

// TestWaitsForBindingConditions: the answers say that there are conditions, and the time from the first look to the
// outcome counts once for an attempt.
func TestWaitsForBindingConditions(t *testing.T) {
	for _, c := range []struct {
		reports string
		want    effect.Result
	}{{"attached", effect.Done}, {"broken", effect.Refused}} {
		client := claimStore(t, &faults{})
		claims := executorOf(client).bindings.claims
		clock := testclock.NewFakePassiveClock(time.Unix(1000, 0))
		claims.waits = newConditionWaits(clock)
		bind := effect.Bind{
			Op: 7, Pod: thePod, NodeName: "n", Token: 1, SchedulerName: "s",
			Devices: &effect.DeviceWork{Picks: conditionedDevice(t)},
		}
		for range 2 {
			if got := claims.prepare(t.Context(), bind); got.Result != effect.Waiting || !got.Conditions {
				t.Fatalf("before the driver reports: %+v", got)
			}
			clock.SetTime(clock.Now().Add(3 * time.Second))
		}
		wait := claims.waits.mu.of[thePod.UID]
		if wait == nil || wait.ended || clock.Since(wait.since) != 6*time.Second {
			t.Fatalf("waits: %+v", wait)
		}
		report(t, client, c.reports)
		for range 2 {
			if got := claims.prepare(t.Context(), bind); got.Result != c.want || !got.Conditions {
				t.Fatalf("%s: %+v, want %s", c.reports, got, c.want)
			}
		}
		if wait := claims.waits.mu.of[thePod.UID]; !wait.ended || len(wait.drivers) != 2 || len(wait.conditioned) != 1 {
			t.Errorf("%s: %+v", c.reports, wait)
		}
	}
}

// TestAWaitEndsWithItsPlace: a place that is taken back ends the wait, an attempt after it begins another, and old ones
// are forgotten.
func TestAWaitEndsWithItsPlace(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Unix(1000, 0))
	waits := newConditionWaits(clock)
	of := func(token ledger.Token, pod string) effect.Bind {
		e := effect.Bind{Pod: thePod, Token: token}
		e.Pod.UID = pod
		return e
	}
	conditioned := conditionWait{drivers: []string{"d"}, conditioned: []string{"d"}}
	waits.began(of(1, "a"), conditioned)
	waits.timedOut("a")
	if !waits.mu.of["a"].ended {
		t.Error("it waits for a place that is gone")
	}
	waits.began(of(2, "a"), conditioned)
	if waits.mu.of["a"].ended {
		t.Error("the next attempt has ended before it began")
	}
	clock.SetTime(clock.Now().Add(waitKept + time.Second))
	waits.began(of(3, "b"), conditioned)
	waits.began(of(4, "c"), conditionWait{drivers: []string{"d"}})
	waits.timedOut("none")
	if len(waits.mu.of) != 1 {
		t.Errorf("%d waits are kept, want that of pod b", len(waits.mu.of))
	}
}
