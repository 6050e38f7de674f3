package devices

import (
	"fmt"
	"slices"
	"strings"
)

// String returns everything in the index, one sorted line per item, so that equal indexes print the same. Only
// cached results of selectors are left out.
func (x *Index) String() string {
	lines := []string{fmt.Sprintf("%d wide slices", len(x.multiNode))}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for id := range x.allocated.AllocatedDevices {
		add("device %s is taken", id)
	}
	for id := range x.allocated.AllocatedSharedDeviceIDs {
		add("share %s is taken", id)
	}
	for id, amounts := range x.allocated.AggregatedCapacity {
		add("device %s gives", id)
		for name, q := range amounts {
			add("device %s gives %s %s", id, q, name)
		}
	}
	for pool, n := range x.shared {
		add("pool %s/%s has %d shares", pool.driver, pool.pool, n)
	}
	for name, n := range x.nodes {
		text := ""
		for _, s := range n.slices {
			text += fmt.Sprintf(" %s:%b", s.Name, s.taken)
		}
		add("node %s, plain %t, taken%s", name, x.isPlain(n), text)
	}
	for pool, list := range x.pools {
		names := make([]string, len(list))
		for i, s := range list {
			names[i] = s.Name
		}
		slices.Sort(names)
		add("pool %s/%s is %s", pool.driver, pool.pool, strings.Join(names, ", "))
	}
	for claim, list := range x.promised {
		for _, p := range list {
			add("claim %s is promised to %s, with devices %t", claim, p.podUID, p.allocation != nil)
		}
	}
	for pod := range x.left {
		add("pod %s has left", pod)
	}
	for claim := range x.freed {
		add("claim %s is free", claim)
	}
	for _, r := range x.tainted.rules {
		add("rule %s taints devices", r.Name)
	}
	if len(x.listed) > 0 {
		add("%d slices have lists of values", len(x.listed))
	}
	for _, s := range x.mapped {
		add("slice %s has devices that take resources of the node", s.Name)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
