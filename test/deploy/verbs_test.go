//go:build e2e

package deploy_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/pkg/events"
)

// verbs are those of the API server, and those that only authorization knows.
var verbs = []string{
	"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
	"bind", "escalate", "impersonate", "approve", "sign", "use", "attest",
}

// basicRights lists rights that all accounts have, by the role system:basic-user.
var basicRights = []string{
	"create authorization.k8s.io/selfsubjectaccessreviews", "create authorization.k8s.io/selfsubjectrulesreviews",
	"create authentication.k8s.io/selfsubjectreviews",
}

// watchedByQueue are the resources that a queue reads.
var watchedByQueue = []string{
	"pods", "nodes", "namespaces", "services", "replicationcontrollers", "persistentvolumes", "persistentvolumeclaims",
	"apps/replicasets", "apps/statefulsets", "scheduling.k8s.io/priorityclasses", "policy/poddisruptionbudgets",
	"storage.k8s.io/storageclasses", "storage.k8s.io/csinodes", "storage.k8s.io/csidrivers",
	"storage.k8s.io/csistoragecapacities", "storage.k8s.io/volumeattachments",
	"resource.k8s.io/resourceclaims", "resource.k8s.io/resourceslices", "resource.k8s.io/deviceclasses",
	"resource.k8s.io/devicetaintrules", "scheduling.k8s.io/podgroups",
}

// rightsOf are all rights of each account, as "verb group/resource", except for one to read the namespace
// kube-system.
func rightsOf() map[string][]string {
	var queue []string
	for _, resource := range watchedByQueue {
		queue = append(queue, "list "+resource, "watch "+resource)
	}
	return map[string][]string{
		"berth-queue": queue, "berth-scheduler": nil, "berth-descheduler": nil, "berth-stores": nil, "default": nil,
		"berth-binder": {
			"get pods", "create pods/binding", "patch pods/status",
			"patch scheduling.k8s.io/podgroups/status", "create pods/eviction", "delete pods",
			"get persistentvolumes", "patch persistentvolumes",
			"get persistentvolumeclaims", "patch persistentvolumeclaims",
			"get resource.k8s.io/resourceclaims", "patch resource.k8s.io/resourceclaims",
			"create resource.k8s.io/resourceclaims", "delete resource.k8s.io/resourceclaims",
			"patch resource.k8s.io/resourceclaims/status", "patch resource.k8s.io/resourceclaims/binding",
			"get policy/poddisruptionbudgets", "create events.k8s.io/events", "patch events.k8s.io/events",
		},
	}
}

// synthetic are resources that only authorization knows.
var synthetic = []string{"resource.k8s.io/resourceclaims/binding", "certificates.k8s.io/signers", "users", "groups"}

// TestNoOtherVerb asks the API server for every verb on every resource that it has, as each account.
func TestNoOtherVerb(t *testing.T) {
	s := newSystem(t, "")
	s.install("overlays/ha")
	client := s.unthrottled()
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	s.must(err)
	resources := map[string]bool{}
	for _, name := range synthetic {
		resources[name] = true
	}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		s.must(err)
		for _, r := range list.APIResources {
			resources[strings.TrimPrefix(group.Group+"/"+r.Name, "/")] = true
		}
	}
	if len(resources) < 100 {
		t.Fatalf("the API server has %d resources: want 100 or more", len(resources))
	}
	for account, want := range rightsOf() {
		want = append(slices.Clone(want), basicRights...)
		slices.Sort(want)
		got := s.rights(client, account, slices.Sorted(maps.Keys(resources)))
		if missing := without(want, got); len(missing) > 0 {
			t.Errorf("%s lacks %q", account, missing)
		}
		if spare := without(got, want); len(spare) > 0 {
			t.Errorf("%s may also %q", account, spare)
		}
	}
}

func without(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(one string) bool { return slices.Contains(others, one) })
}

func (s *system) unthrottled() kubernetes.Interface {
	s.Helper()
	config := rest.CopyConfig(s.cluster.Rest)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	s.must(err)
	return client
}

// rights are those of an account in Berth's namespace, which includes those in all namespaces.
func (s *system) rights(client kubernetes.Interface, account string, resources []string) []string {
	s.Helper()
	allowed := make([][]string, len(resources))
	group, ctx := errgroup.WithContext(s.Context())
	group.SetLimit(8)
	for i, name := range resources {
		group.Go(func() (err error) {
			allowed[i], err = verbsOn(ctx, client, account, name)
			return err
		})
	}
	s.must(group.Wait())
	return slices.Sorted(slices.Values(slices.Concat(allowed...)))
}

func verbsOn(ctx context.Context, client kubernetes.Interface, account, name string) (allowed []string, err error) {
	parts := strings.SplitN(name, "/", 2)
	attributes := authorizationv1.ResourceAttributes{Namespace: namespace, Resource: parts[0]}
	if len(parts) == 2 && strings.Contains(parts[0], ".") || len(parts) == 2 && isGroup(parts[0]) {
		attributes.Group = parts[0]
		attributes.Resource, attributes.Subresource, _ = strings.Cut(parts[1], "/")
	} else if len(parts) == 2 {
		attributes.Subresource = parts[1]
	}
	for _, verb := range verbs {
		attributes.Verb = verb
		review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:" + namespace + ":" + account,
				Groups: []string{
					"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated",
				},
				ResourceAttributes: &attributes,
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if review.Status.Allowed {
			allowed = append(allowed, verb+" "+name)
		}
	}
	return allowed, nil
}

// isGroup reports whether a name without a dot is that of an API group.
func isGroup(name string) bool {
	return slices.Contains([]string{"apps", "autoscaling", "batch", "policy"}, name)
}

// TestTheQuotaGateOpensNothingElse: with the quota gate the binder may patch pods, and its patch changes a scheduling
// gate and nothing else.
func TestTheQuotaGateOpensNothingElse(t *testing.T) {
	s := newSystem(t, "")
	s.install("overlays/ha")
	for _, o := range s.decode(s.component("quota-gate", "quotagate.yaml")) {
		s.create(o)
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig("berth-binder"))
	s.must(err)
	binder, err := kubernetes.NewForConfig(config)
	s.must(err)
	const ns = "gated"
	s.create(&corev1.Namespace{ObjectMeta: named(ns)})
	pod := func(name string) {
		spec := template(name, "100m").Spec
		spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: events.QuotaGate}, {Name: "example.com/other"}}
		_, err := s.client.CoreV1().Pods(ns).Create(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
		s.must(err)
	}
	patchAs := func(who kubernetes.Interface, name, body string) error {
		_, err := who.CoreV1().Pods(ns).Patch(
			t.Context(), name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	patch := func(name, body string) error { return patchAs(binder, name, body) }
	pod("refused")
	// A policy takes a moment to be in force.
	s.eventually(inForceWithin, "an image is refused", func(context.Context) (string, error) {
		if err := patch("refused", `{"spec":{"containers":[{"name":"refused","image":"evil"}]}}`); err != nil {
			if strings.Contains(err.Error(), "berth-quota-gate") {
				return "", nil
			}
			return err.Error(), nil
		}
		return "the image was changed", nil
	})
	for what, body := range map[string]string{
		"a foreign gate": `{"spec":{"schedulingGates":[{"$patch":"delete","name":"example.com/other"}]}}`,
		"an affinity":    `{"spec":{"nodeSelector":{"a":"b"}}}`,
		"a toleration":   `{"spec":{"tolerations":[{"key":"a","operator":"Exists"}]}}`,
		"a deadline":     `{"spec":{"activeDeadlineSeconds":1}}`,
		"a label":        `{"metadata":{"labels":{"a":"b"}}}`,
		"an owner":       `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"y"}]}}`,
		"a finalizer":    `{"metadata":{"finalizers":["example.com/kept"]}}`,
	} {
		if err := patch("refused", body); err == nil || !strings.Contains(err.Error(), "berth-quota-gate") {
			t.Errorf("%s: %v, want it refused by the policy", what, err)
		}
	}
	const letGo = `{"spec":{"schedulingGates":[{"$patch":"delete","name":"` + events.QuotaGate + `"}]}}`
	pod("let-go")
	s.must(patch("let-go", letGo))

	// A kustomization may install Berth in another namespace. It leaves the policy as it is.
	elsewhere := s.binderOf("elsewhere")
	err = patchAs(elsewhere, "refused", `{"spec":{"containers":[{"name":"refused","image":"evil"}]}}`)
	if err == nil || !strings.Contains(err.Error(), "berth-quota-gate") {
		t.Errorf("an image, by the binder of another namespace: %v, want it refused by the policy", err)
	}
	pod("let-go-elsewhere")
	s.must(patchAs(elsewhere, "let-go-elsewhere", letGo))
}

// binderOf is a client with the account and the quota gate's role of a binder that is installed in some namespace.
func (s *system) binderOf(namespace string) kubernetes.Interface {
	account := "system:serviceaccount:" + namespace + ":berth-binder"
	s.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: named("quota-gate-of-" + namespace),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "berth-quota-gate"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: account}},
	})
	config := rest.CopyConfig(s.cluster.Rest)
	config.Impersonate = rest.ImpersonationConfig{UserName: account}
	client, err := kubernetes.NewForConfig(config)
	s.must(err)
	return client
}
