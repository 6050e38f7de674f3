package gangs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
)

// maxDomains is how many domains of a topology are tried for one gang: those with the fewest slots that are enough. A
// gang that could be placed only in a later one waits.
const maxDomains = 64

// placeInDomain decides about a gang whose pods must be on nodes of one domain. Domains that have room for enough pods
// by their resources alone are tried in turn, the one with the least room first. Pods that have a place already pin the
// domain. Source of the rule: plugins/topologyaware in upstream, which tries all domains and compares them.
func (f *Former) placeInDomain(t *try) Placement {
	domains, pinned := f.Search.Domains(t.Group.Topology, t.waiting, t.placed)
	if len(pinned) > 1 {
		return Placement{Is: Failed, Why: "cannot determine domain for already scheduled pods: they are in " +
			strings.Join(pinned, " and ")}
	}
	want := max(t.Group.MinCount-len(t.placed), 1)
	best := search.Domain{}
	if len(domains) > 0 {
		best = domains[len(domains)-1]
	}
	large := slices.DeleteFunc(slices.Clone(domains), func(d search.Domain) bool { return d.Slots < want })
	for _, d := range large[:min(len(large), maxDomains)] {
		t.unfit = nil
		if p := f.placeAll(t, &d); p.Is != Placed {
			return p
		}
		if len(t.Members) >= want {
			return f.conclude(t)
		}
		best = d
		f.takeBack(t)
	}
	why := nowhere(t, len(domains), best, want)
	t.unfit = nil
	return f.rejectAll(t, t.waiting, why)
}

// nowhere returns the message for a gang for which no domain has room. All its pods get it; it begins as upstream's.
func nowhere(t *try, domains int, best search.Domain, want int) string {
	why := fmt.Sprintf("0/%d placements are available", domains)
	switch {
	case domains == 0:
		return why + ": no node that can be used has the label " + strings.Join(t.Group.Topology, " and ")
	case best.Slots < want:
		return fmt.Sprintf("%s: %d of %d members fit in the best one, %s", why, best.Slots, want, best.Name)
	case len(t.unfit) == 0:
		return fmt.Sprintf("%s, the last tried is %s", why, best.Name)
	}
	return fmt.Sprintf("%s, the last tried is %s: %s", why, best.Name, t.unfit[0].d.Message)
}
