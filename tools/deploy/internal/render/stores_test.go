package render_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// flag is the value of a container's flag, which must be given once.
func flag(t *testing.T, template object, name string) string {
	t.Helper()
	var found []string
	for _, of := range []string{"args", "command"} {
		args, _ := field(template, "spec.containers.0."+of).(list)
		for _, arg := range args {
			if value, ok := strings.CutPrefix(fmt.Sprint(arg), name+"="); ok {
				found = append(found, value)
			}
		}
	}
	if len(found) != 1 {
		t.Errorf("%s is there %d times, want once", name, len(found))
		return ""
	}
	return found[0]
}

// numbered writes a name for each member, and joins them.
func numbered(form string, members int) string {
	var all []string
	for n := range members {
		all = append(all, strings.ReplaceAll(form, "N", fmt.Sprint(n)))
	}
	return strings.Join(all, ",")
}

// TestStoresHaveAsManyMembersAsGiven: as StatefulSets, among themselves, for their clients, and in disruption budgets.
func TestStoresHaveAsManyMembersAsGiven(t *testing.T) {
	for _, tls := range []bool{true, false} {
		for _, n := range []struct{ etcd, nats int }{{1, 5}, {3, 3}, {5, 1}} {
			t.Run(fmt.Sprintf("tls %t, %d and %d", tls, n.etcd, n.nats), func(t *testing.T) {
				objects := chartObjects(t, "ha", set("name", "other"), set("tls.enabled", tls),
					set("stores.etcd.replicas", n.etcd), set("stores.nats.replicas", n.nats))
				checkMembers(t, objects, "etcd", n.etcd)
				checkMembers(t, objects, "nats", n.nats)
				etcd, nats := "http", "nats"
				if tls {
					etcd, nats = "https", "tls"
				}
				pods := templates(objects)
				initial := flag(t, pods["StatefulSet/etcd"], "--initial-cluster")
				want := numbered("other-etcd-N="+etcd+"://other-etcd-N.other-etcd:2380", n.etcd)
				if diff := cmp.Diff(want, initial); diff != "" {
					t.Errorf("--initial-cluster: want (-), got (+):\n%s", diff)
				}
				for workload, pod := range pods {
					checkClient(t, workload, pod, map[string]string{
						"--etcd-endpoints": numbered(etcd+"://other-etcd-N.other-etcd:2379", n.etcd),
						"--nats-url":       numbered(nats+"://other-nats-N.other-nats:4222", n.nats),
					})
				}
				if got := flag(t, pods["Deployment/queue"], "--nats-replicas"); got != fmt.Sprint(n.nats) {
					t.Errorf("copies of a stream: %s, want %d", got, n.nats)
				}
			})
		}
	}
}

// TestRoutes: servers of NATS know each other, and one alone has no cluster: it would wait for a second server.
func TestRoutes(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		config := find(chartObjects(t, "ha", set("stores.nats.replicas", n)), "ConfigMap", "berth-stores")
		text, _ := field(config, "data").(object)["nats.conf"].(string)
		want := n
		if n == 1 {
			want = 0
		}
		if got := strings.Count(text, "tls://"); got != want || strings.Contains(text, "cluster {") != (n > 1) {
			t.Errorf("%d servers: %d routes, want %d:\n%s", n, got, want, text)
		}
		if last := fmt.Sprintf("tls://berth-nats-%d.berth-nats:6222", n-1); n > 1 && !strings.Contains(text, last) {
			t.Errorf("%d servers: no route %s:\n%s", n, last, text)
		}
	}
}

func checkMembers(t *testing.T, objects []*unstructured.Unstructured, store string, members int) {
	t.Helper()
	got := field(find(objects, "StatefulSet", "other-"+store), "spec.replicas")
	if fmt.Sprint(got) != fmt.Sprint(members) {
		t.Errorf("replicas of %s: %v, want %d", store, got, members)
	}
	// A budget of one pod among one would say nothing.
	budget := find(objects, "PodDisruptionBudget", "other-"+store)
	if (budget != nil) != (members > 1) || budget != nil && fmt.Sprint(field(budget, "spec.maxUnavailable")) != "1" {
		t.Errorf("disruption budget of %d members of %s: %v", members, store, budget)
	}
}

// checkClient: every workload that is not a store reaches all members of the stores it uses.
func checkClient(t *testing.T, workload string, pod object, want map[string]string) {
	t.Helper()
	if strings.HasPrefix(workload, "StatefulSet/") || workload == "CronJob/etcd-defragment" {
		return // etcdctl's endpoints: TestDefragmentation
	}
	if workload == "Job/etcd-roles" {
		delete(want, "--nats-url")
	}
	for name, value := range want {
		if diff := cmp.Diff(value, flag(t, pod, name)); diff != "" {
			t.Errorf("%s: %s: want (-), got (+):\n%s", workload, name, diff)
		}
	}
}

// TestStoresThatExist: their addresses reach every service, and the chart deploys none.
func TestStoresThatExist(t *testing.T) {
	objects := chartObjects(t, "base", set("stores.etcd.endpoints", list{"https://a:2379", "https://b:2379"}),
		set("stores.nats.urls", list{"tls://c:4222"}))
	for workload, pod := range templates(objects) {
		checkClient(t, workload, pod, map[string]string{
			"--etcd-endpoints": "https://a:2379,https://b:2379", "--nats-url": "tls://c:4222",
		})
	}
	if len(ofKind(objects, "StatefulSet")) > 0 {
		t.Error("a store is deployed")
	}
}

// TestStorageClasses: a store's own class, or the common one.
func TestStorageClasses(t *testing.T) {
	own := with(set("stores.etcd.storageClassName", "fast"), set("stores.nats.storageClassName", "large"))
	all := set("stores.storageClassName", "usual")
	for name, c := range map[string]struct {
		values           object
		etcd, nats, data any
	}{
		"none": {object{}, nil, nil, nil},
		"all":  {all, "usual", "usual", "usual"},
		"own":  {own, "fast", "large", nil},
		"both": {with(all, own), "fast", "large", "usual"},
	} {
		for store, want := range map[string]any{"etcd": c.etcd, "nats": c.nats, "single": c.data} {
			variant := "ha"
			if store == "single" {
				variant = "dev"
			}
			stateful := find(chartObjects(t, variant, c.values), "StatefulSet", "berth-"+store)
			if got := field(stateful, "spec.volumeClaimTemplates.0.spec.storageClassName"); got != want {
				t.Errorf("%s: class of %s: %v, want %v", name, store, got, want)
			}
		}
	}
}
