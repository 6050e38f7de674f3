//go:build e2e

package deploy_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// inForceWithin bounds the time until the API server applies a changed role.
	inForceWithin = 30 * time.Second
	// stepWithin bounds a step with all permissions; brokenFor is how long a step that lacks
	// one is watched not to happen, at least.
	stepWithin = 2 * time.Minute
	brokenFor  = 8 * time.Second
)

// name says a permission in the way of `kubectl auth can-i`. List and watch are one: a client
// that may not list begins with a watch of everything there is, and one that may not watch
// lists again and again.
func name(rule rbacv1.PolicyRule) string {
	if len(rule.NonResourceURLs) > 0 {
		return strings.Join(rule.Verbs, "+") + " " + rule.NonResourceURLs[0]
	}
	text := strings.Join(rule.Verbs, "+") + " " + rule.Resources[0]
	if rule.APIGroups[0] != "" {
		text += "." + rule.APIGroups[0]
	}
	if len(rule.ResourceNames) > 0 {
		text += "/" + rule.ResourceNames[0]
	}
	return text
}

// step is one thing that the system does, which fails when it is not done in time.
type step struct {
	what string
	do   func(s *system, within time.Duration) error
}

// without takes a permission from a role that an account has, calls do, and gives it back.
func (s *system) without(role, account string, taken rbacv1.PolicyRule, do func()) {
	s.Helper()
	all := pick[*rbacv1.ClusterRole](s, s.shipped, role).Rules
	rest := slices.DeleteFunc(slices.Clone(all), func(r rbacv1.PolicyRule) bool { return name(r) == name(taken) })
	if len(rest) != len(all)-1 {
		s.Fatalf("%s: %s is given %d times", role, name(taken), len(all)-len(rest))
	}
	s.give(role, rest)
	s.inForce(account, taken, false)
	do()
	s.give(role, all)
	s.inForce(account, taken, true)
}

func (s *system) give(role string, rules []rbacv1.PolicyRule) {
	s.Helper()
	now, err := s.client.RbacV1().ClusterRoles().Get(s.Context(), role, metav1.GetOptions{})
	s.must(err)
	now.Rules = rules
	_, err = s.client.RbacV1().ClusterRoles().Update(s.Context(), now, metav1.UpdateOptions{})
	s.must(err)
}

// inForce waits until the API server answers that way.
func (s *system) inForce(account string, rule rbacv1.PolicyRule, allowed bool) {
	s.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + namespace + ":" + account,
	}}
	if len(rule.NonResourceURLs) > 0 {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{
			Path: rule.NonResourceURLs[0], Verb: rule.Verbs[0],
		}
	} else {
		review.Spec.ResourceAttributes = attributesOf(rule)
	}
	s.eventually(inForceWithin, fmt.Sprintf("%s: %s is %t", account, name(rule), allowed),
		func(ctx context.Context) (string, error) {
			got, err := s.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil || got.Status.Allowed == allowed {
				return "", err
			}
			return "the old answer", nil
		})
}

// attributesOf names the resource of a rule.
func attributesOf(rule rbacv1.PolicyRule) *authorizationv1.ResourceAttributes {
	resource, sub, _ := strings.Cut(rule.Resources[0], "/")
	attributes := &authorizationv1.ResourceAttributes{
		Group: rule.APIGroups[0], Resource: resource, Subresource: sub, Verb: rule.Verbs[0],
	}
	if len(rule.ResourceNames) > 0 {
		attributes.Name = rule.ResourceNames[0]
		attributes.Namespace = attributes.Name // of a namespace, its own
	}
	return attributes
}

// TestNoPermissionOfTheQueueIsSpare: with all permissions facts of every kind arrive; without
// any one of them, those of a kind do not, or the queue is never ready.
func TestNoPermissionOfTheQueueIsSpare(t *testing.T) {
	s := newSystem(t, "tools/cluster/examples/labs-nodes.yaml")
	s.install("overlays/ha")
	s.certificates()
	s.startStores()
	s.start("queue", "first").Kill() // makes the streams
	rules := pick[*rbacv1.ClusterRole](s, s.shipped, "berth-queue").Rules
	steps := queueSteps()
	needs := map[string]bool{}
	for _, rule := range rules {
		resource := stepOf(rule)
		needs[resource] = true
		one, ok := steps[resource]
		if !ok {
			t.Fatalf("no step for %s", name(rule))
		}
		t.Run(name(rule), func(t *testing.T) {
			s.without("berth-queue", "berth-queue", rule, func() {
				if err := one.do(s, brokenFor); err == nil {
					t.Errorf("spare: without it, %s", one.what)
				}
			})
		})
	}
	for _, resource := range slices.Sorted(maps.Keys(steps)) {
		if !needs[resource] {
			t.Errorf("%s has a step, and no permission", resource)
		}
		t.Run("with all/"+resource, func(t *testing.T) {
			if err := steps[resource].do(s, stepWithin); err != nil {
				t.Error(err)
			}
		})
	}
}

// stepOf names the step that a permission of the queue is for.
func stepOf(rule rbacv1.PolicyRule) string {
	switch {
	case len(rule.NonResourceURLs) > 0:
		return "gates"
	case len(rule.ResourceNames) > 0:
		return "ready"
	default:
		return strings.SplitN(rule.Resources[0], "/", 2)[0]
	}
}

// TestNoPermissionOfTheBinderIsSpare takes each away while everything runs.
func TestNoPermissionOfTheBinderIsSpare(t *testing.T) {
	s := newSystem(t, "")
	s.install("overlays/ha")
	s.certificates()
	s.startStores()
	b := newBench(s)
	steps := b.steps()
	for _, rule := range pick[*rbacv1.ClusterRole](s, s.shipped, "berth-binder").Rules {
		one, ok := steps[name(rule)]
		if !ok {
			t.Errorf("no step for %s", name(rule))
			continue
		}
		delete(steps, name(rule))
		t.Run(name(rule), func(t *testing.T) { b.needs(t, "berth-binder", rule, one) })
	}
	for _, o := range s.decode(s.component("quota-gate", "quotagate.yaml")) {
		s.create(o)
		s.shipped = append(s.shipped, o)
	}
	for _, rule := range pick[*rbacv1.ClusterRole](s, s.shipped, "berth-quota-gate").Rules {
		t.Run("quota gate/"+name(rule), func(t *testing.T) {
			s.inForce("berth-binder", rule, true)
			b.needs(t, "berth-quota-gate", rule, b.gateStep())
		})
	}
	if len(steps) > 0 {
		t.Errorf("steps without a permission: %v", slices.Sorted(maps.Keys(steps)))
	}
}

// needs makes the binder do a step with a permission of a role, and checks that it fails without.
func (b *bench) needs(t *testing.T, role string, rule rbacv1.PolicyRule, one step) {
	t.Helper()
	begin := time.Now()
	if err := one.do(b.system, stepWithin); err != nil {
		t.Fatalf("with all permissions: %s: %v", one.what, err)
	}
	longer := max(brokenFor, 2*time.Since(begin))
	b.without(role, "berth-binder", rule, func() {
		if err := one.do(b.system, longer); err == nil {
			t.Errorf("spare: without it, %s", one.what)
		}
	})
	b.tidy()
}

// within polls like harness.Eventually, for steps that are expected to fail.
func (s *system) within(limit time.Duration, what string, check func(context.Context) (string, error)) error {
	return harness.Eventually(s.Context(), limit, what, check)
}
