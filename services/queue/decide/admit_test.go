package decide

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// claims is a cluster whose only other objects are claims.
type claims struct {
	others
	named map[string]*state.Object
}

// others is never called.
type others interface{ rule.Objects }

func (c claims) ObjectByName(_ events.Kind, _, name string) (*state.Object, bool) {
	o, ok := c.named[name]
	return o, ok
}

// claiming returns a harness with a pod "a" that has a claim, no claim in the facts, and a shard that requests work.
func claiming(t *testing.T, claim corev1.PodResourceClaim) *harness {
	h := newHarness(t)
	h.objects = claims{named: map[string]*state.Object{}}
	h.lead()
	h.put("a", func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{claim} })
	h.ask("s1", 9)
	return h
}

// claimed returns a harness with a pod "a" whose claim will be created from a template, and a shard that requests
// work.
func claimed(t *testing.T) *harness {
	h := claiming(t, corev1.PodResourceClaim{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpus")})
	h.want("a", waiting.PoolParked)
	return h
}

// claimMade applies the fact that the claim exists now.
func (h *harness) claimMade(name string) {
	h.t.Helper()
	api := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: "a", UID: "a", Controller: ptr.To(true),
		}},
	}}
	claim := &state.Object{Kind: events.KindResourceClaim, UID: name, Namespace: "ns", Name: name, API: api}
	h.objects.(claims).named[name] = claim
	h.facts(state.Changes{Others: []state.ObjectChange{{Kind: claim.Kind, After: claim}}})
}

// claimNamed applies the fact that the pod's status names its claim.
func (h *harness) claimNamed(name string) {
	h.t.Helper()
	h.put("a", func(p *corev1.Pod) {
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &name}}
	})
}

func TestPodIsOfferedOnceItsClaimsAreMade(t *testing.T) {
	for name, order := range map[string][]func(h *harness){
		"claim first": {func(h *harness) { h.claimMade("a-gpu") }, func(h *harness) { h.claimNamed("a-gpu") }},
		"pod first":   {func(h *harness) { h.claimNamed("a-gpu") }, func(h *harness) { h.claimMade("a-gpu") }},
	} {
		t.Run(name, func(t *testing.T) {
			h := claimed(t)
			order[0](h)
			h.want("a", waiting.PoolParked)
			order[1](h)
			h.want("a", waiting.PoolOffered)
			if o := h.offerOf("a"); o.Attempt != 1 {
				t.Errorf("offered as attempt %d, want 1: it has not been tried before", o.Attempt)
			}
		})
	}
}

func TestPodWhoseClaimIsNeverMadeIsTriedAfterALongWait(t *testing.T) {
	h := claimed(t)
	h.sleep(flushAfter - time.Second)
	h.want("a", waiting.PoolParked)
	h.sleep(2 * time.Second)
	h.ask("s1", 9)
	h.want("a", waiting.PoolOffered)
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, plugins(names.DynamicResources))
	h.want("a", waiting.PoolParked)
}

func TestPodWithAMissingClaimOfItsOwnIsOffered(t *testing.T) {
	h := claiming(t, corev1.PodResourceClaim{Name: "gpu", ResourceClaimName: ptr.To("mine")})
	h.want("a", waiting.PoolOffered) // the answer is a condition: nothing else informs its owner
}
