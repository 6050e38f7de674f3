package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
)

// maxDomains is how many domains of a topology are tried for one gang: those with the fewest slots that are enough, which
// are the most likely to be left as they are by others. A gang that could be placed only in a later one waits.
const maxDomains = 64

// placeInDomain decides about a gang whose members must be on nodes of one domain. Domains that have room for all members
// by their resources alone are tried in turn, the one with the least room first. Members that have a place already pin
// the domain. Source of the rule: plugins/topologyaware in upstream, which tries all domains and compares them.
func (p *placer) placeInDomain(try *together) outcome {
	domains, pinned := p.search.Domains(try.Group.Topology, try.waiting, try.placed)
	if len(pinned) > 1 {
		return outcome{is: failed, why: fmt.Sprintf("cannot determine domain for already scheduled pods: they are in %s",
			strings.Join(pinned, " and "))}
	}
	want := max(try.Group.MinCount-len(try.placed), 1)
	best := search.Domain{}
	for _, d := range domains {
		if d.Slots > best.Slots {
			best = d
		}
	}
	large := slices.DeleteFunc(slices.Clone(domains), func(d search.Domain) bool { return d.Slots < want })
	for _, d := range large[:min(len(large), maxDomains)] {
		try.unfit = nil
		if o := p.placeMembers(try, &d); o.is != undecided {
			return o
		}
		if len(try.Members) >= want {
			return p.concludeGang(try, "")
		}
		best = d
		p.takeBack(try)
	}
	return p.rejectEverywhere(try, domains, best, want)
}

// rejectEverywhere rejects a gang for which no domain has room. All members get one message, which begins as upstream's.
func (p *placer) rejectEverywhere(try *together, domains []search.Domain, best search.Domain, want int) outcome {
	why := fmt.Sprintf("0/%d placements are available", len(domains))
	switch {
	case len(domains) == 0:
		why += ": no node that can be used has the label " + strings.Join(try.Group.Topology, " and ")
	case best.Slots < want:
		why += fmt.Sprintf(": %d of %d members fit in the best one, %s", best.Slots, want, best.Name)
	default:
		why += fmt.Sprintf(", the last tried is %s", best.Name)
		if len(try.unfit) > 0 {
			why += ": " + try.unfit[0].d.Message
		}
	}
	try.unfit = nil
	p.rejectGang(try, try.waiting, why)
	return outcome{is: handedOver}
}
