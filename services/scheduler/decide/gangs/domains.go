package gangs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
)

// maxDomains is how many domains of a topology one attempt tries. If more have room by their resources, the next
// attempt goes on with the others.
const maxDomains = 64

// placeInDomain decides about a gang whose pods must be on nodes of one domain. Domains that have room for enough pods
// by their resources alone are tried in turn (inTurn), until one takes all pods; if none does, the one that took most
// of them is used. Pods that have a place already pin the domain. Source of the rule: plugins/topologyaware in
// upstream, which tries all domains and compares them.
func (f *Former) placeInDomain(t *try) Placement {
	behind := f.Shard.View.Settle()
	if !f.Search.NodesKnown(t.reserved) {
		return Placement{Is: Deferred}
	}
	domains, err := f.Search.Domains(t.Group.Topology, t.waiting, t.placed)
	if err != nil {
		return Placement{Is: Failed, Why: unpinned(err)}
	}
	t.rules = []string{names.NodeAffinity, names.NodeResourcesFit}
	best := search.Domain{}
	if len(domains) > 0 {
		best = domains[len(domains)-1]
	}
	large := someOf(inTurn(domains, t.want(), len(t.waiting)), int(t.Lead.Offer.Attempt))
	most, part := 0, search.Domain{}
	for _, d := range large {
		if d.Slots <= most {
			continue
		}
		switch p := f.tryIn(t, &d); {
		case most > 0 && (p.Is == Deferred || p.Is == Failed):
			continue // there is a domain for enough of them
		case p.Is != Placed:
			return p
		case len(t.Members) == len(t.waiting):
			return f.conclude(t)
		}
		if n := len(t.Members); n >= t.want() && n > most {
			most, part = n, d
		}
		best = d
		f.takeBack(t)
	}
	if most > 0 {
		if p := f.tryIn(t, &part); p.Is != Placed {
			return p
		}
		return f.conclude(t)
	}
	if behind > 0 {
		return Placement{Is: Deferred} // nodes that cannot be used yet were in no domain
	}
	detail := nowhere(t, best)
	for _, u := range t.unfit {
		t.rules = append(t.rules, u.d.Plugins...)
	}
	t.unfit = nil
	return f.rejectAll(t, t.waiting, fmt.Sprintf("0/%d placements are available", len(domains)), detail)
}

// tryIn decides about each pod, on the nodes of a domain.
func (f *Former) tryIn(t *try, d *search.Domain) Placement {
	t.unfit = nil
	return f.placeAll(t, d)
}

// inTurn returns the domains with room for at least want pods, in the order in which to try them, given those with the
// fewest slots first. A domain for all pods comes before one for some of them: the others could follow into no other
// domain. Of domains for all pods the one with the least room comes first, so that large domains stay free for large
// gangs; of the others the one with the most.
func inTurn(domains []search.Domain, want, all int) []search.Domain {
	var whole, part []search.Domain
	for _, d := range domains {
		switch {
		case d.Slots >= all:
			whole = append(whole, d)
		case d.Slots >= want:
			part = append(part, d)
		}
	}
	slices.Reverse(part)
	return append(whole, part...)
}

// someOf returns the domains to try in an attempt, by its number, at most maxDomains.
func someOf(domains []search.Domain, attempt int) []search.Domain {
	if len(domains) <= maxDomains {
		return domains
	}
	rounds := (len(domains) + maxDomains - 1) / maxDomains
	from := max(attempt-1, 0) % rounds * maxDomains
	return domains[from:min(from+maxDomains, len(domains))]
}

// nowhere returns the end of the message for a gang for which no domain has room.
func nowhere(t *try, best search.Domain) string {
	switch {
	case best.Name == "":
		return ": no node that can be used has the label " + strings.Join(t.Group.Topology, " and ")
	case best.Slots < t.want():
		return fmt.Sprintf(": %d of %d members fit in the best one, %s", best.Slots, t.want(), best.Name)
	case len(t.unfit) == 0:
		return ", the last tried is " + best.Name
	}
	return fmt.Sprintf(", the last tried is %s: %s", best.Name, t.unfit[0].d.Message)
}
