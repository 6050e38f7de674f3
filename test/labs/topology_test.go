//go:build e2e

package labs

import (
	"maps"
	"slices"
)

func podAffinity(l *lab) {
	l.next()
	l.schedulable(6)
	l.next()
	l.bound(labelled("security"), 3)
	l.next()
	l.runsInZone("first", "zone-b")
	l.next()
	l.runsInZone("second", "zone-a")
	l.next()
	l.pending(named("lonely"), 1, "0/6 nodes are available: 6 node(s) didn't match pod affinity rules.")
}

// runsInZone checks the zone of a pod once it is bound.
func (l *lab) runsInZone(pod, zone string) {
	l.Helper()
	l.counted(pod, l.byZone(l.bound(named(pod), 1)), map[string]int{zone: 1})
}

func affinityVersions(l *lab) {
	const version, namespaces, replicas = "app=web,version=", 2, 3
	l.next()
	l.schedulable(6)
	l.next()
	const decoys = 2
	l.bound(labelled(version+"v1"), decoys)
	l.next()
	first := l.byZone(l.bound(labelled(version+"v1"), decoys+namespaces*replicas))
	if len(first) != 2 || first["zone-c"] != decoys {
		l.Fatalf("version 1: %v, want two in zone-c and all others in one other zone", first)
	}
	delete(first, "zone-c")
	l.next()
	second := l.byZone(l.bound(labelled(version+"v2"), namespaces*replicas))
	if len(second) != 1 {
		l.Errorf("version 2: %v, want one zone", second)
	}
	for zone := range second {
		if first[zone] != 0 {
			l.Errorf("version 2 stands in %v, want another zone than version 1: %v", second, first)
		}
	}

	l.next()
	zones := map[string]string{}
	for _, tenant := range []string{"acme", "globex", "initech"} {
		zones[tenant] = l.oneZone("tenant="+tenant, replicas)
	}
	if used := slices.Compact(slices.Sorted(maps.Values(zones))); len(used) != len(zones) {
		l.Errorf("tenants stand in %v, want a zone for each", zones)
	}
	l.next()
	l.pending(labelled("tenant=umbrella"), replicas,
		"0/6 nodes are available: 6 node(s) didn't match pod anti-affinity rules.")
	l.next()
	if zone := l.oneZone("tenant=umbrella", replicas); zone != zones["acme"] {
		l.Errorf("umbrella stands in %s, want %s, which acme left", zone, zones["acme"])
	}
}

// oneZone waits until n pods are bound and returns the zone they share.
func (l *lab) oneZone(selector string, n int) string {
	l.Helper()
	counts := l.byZone(l.bound(labelled(selector), n))
	if len(counts) != 1 {
		l.Fatalf("pods with %s: %v, want one zone", selector, counts)
	}
	return slices.Collect(maps.Keys(counts))[0]
}

func defaultSpread(l *lab) {
	l.next()
	l.schedulable(6)
	l.next()
	web := l.bound(labelled("app=web"), 30)
	l.counted("web", l.byZone(web), map[string]int{"zone-a": 15, "zone-b": 15})
	const nodeSkew = 3
	counts := slices.Sorted(maps.Values(byNode(web)))
	if len(counts) != 6 || counts[5]-counts[0] > nodeSkew {
		l.Errorf("web: %v, want six nodes within %d of each other", byNode(web), nodeSkew)
	}
	l.next()
	l.schedulable(7)
	l.next()
	l.counted("naked", byNode(l.bound(labelled("app=naked"), 10)), map[string]int{"default-spread-large": 10})
	l.next()
	l.counted("owned", l.byZone(l.bound(labelled("app=owned"), 10)), map[string]int{"zone-a": 5, "zone-b": 5})
}

func hardSpread(l *lab) {
	l.next()
	l.schedulable(6)
	const replicas = 31
	l.evenAllTheWay(replicas)
	l.evenAllTheWay(replicas)

	domains := labelled("app=domains")
	l.next()
	l.counted("domains", l.byZone(l.bound(domains, 2)), map[string]int{"zone-a": 1, "zone-b": 1})
	l.pending(domains, 2, "0/6 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, "+
		"4 node(s) didn't match pod topology spread constraints.")
	l.next()
	counts := l.byZone(l.bound(domains, 4))
	if len(counts) != 3 || counts["zone-a"] == 0 || counts["zone-b"] == 0 || counts["zone-d"] == 0 {
		l.Errorf("domains: %v, want each of zone-a, zone-b and zone-d", counts)
	}

	l.next()
	ignore, honor := labelled("app=taints-ignore"), labelled("app=taints-honor")
	l.counted("taints-ignore", l.byZone(l.bound(ignore, 2)), map[string]int{"zone-a": 1, "zone-b": 1})
	l.pending(ignore, 2, "0/7 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "+
		"2 node(s) had untolerated taint(s), 4 node(s) didn't match pod topology spread constraints.")
	l.counted("taints-honor", l.byZone(l.bound(honor, 4)), map[string]int{"zone-a": 2, "zone-b": 2})
}

// evenAllTheWay runs the block that makes the next revision of web and checks that its pods are evenly spread, and
// that each placement kept the spread even among the pods placed before it.
func (l *lab) evenAllTheWay(n int) {
	l.Helper()
	l.next()
	pods := l.bound(labelled("app=web"), n)
	zones := []string{"zone-a", "zone-b", "zone-c"}
	counts := slices.Sorted(maps.Values(l.byZone(pods)))
	if !slices.Equal(counts, []int{n / 3, n / 3, n - 2*(n/3)}) {
		l.Errorf("web: %v, want %d pods in three parts of the same size, give or take one", l.byZone(pods), n)
	}
	if l.berth == nil {
		return
	}
	even, zoneOf, revision, placed := newSkew(zones...), l.zones(), map[string]bool{}, 0
	for _, pod := range pods {
		revision[string(pod.UID)] = true
	}
	for _, d := range l.reservations() {
		if !revision[d.Pod.UID] {
			continue
		}
		placed++
		if wrong := even.place(d.Pod.UID, zoneOf[d.NodeName]); wrong != "" {
			l.Errorf("ledger revision %d: %s", d.LedgerRevision, wrong)
		}
	}
	if placed < n {
		l.Errorf("%d reservations for %d pods", placed, n)
	}
}
