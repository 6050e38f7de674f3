package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// claimLaws checks which pod used which claim, and which claim had which device, after the walk (S14, S15, fit).
type claimLaws struct {
	evidence *evidence
	placed   *placements
	found    *findings
}

// checkAll checks which pod used which claim, and which claim had which device.
func (l *claimLaws) checkAll() {
	l.checkClaimsForOne()
	l.checkVolumes()
	l.checkDevices()
}

// checkClaimsForOne checks that a claim for a single pod has one user at a time (S14). Source: KEP-2485.
func (l *claimLaws) checkClaimsForOne() {
	users := map[string][]*podLife{}
	for _, uid := range slices.Sorted(maps.Keys(l.evidence.pods)) {
		p := l.evidence.pods[uid]
		if !p.bound.known() {
			continue
		}
		for name := range l.evidence.claims.of(p.last().pod) {
			if forOne(l.evidence.claims.volumeClaims[name]) {
				users[name] = append(users[name], p)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		all := users[name]
		slices.SortStableFunc(all, func(p, q *podLife) int { return cmp.Compare(p.bound.rv, q.bound.rv) })
		for i, p := range all {
			for _, before := range all[:i] {
				l.shareClaim(name, before, p)
			}
		}
	}
}

func (l *claimLaws) shareClaim(name string, before, p *podLife) {
	if p.initially || before.ended.maybe(p.bound.rv) {
		return
	}
	l.found.report.add(Finding{
		Severity: ownFault(p.ours() && before.ours()), Invariant: "S14", ResourceVersion: p.bound.rv,
		Objects: []string{p.object(), before.object(), volumeClaimObject(name)},
		Message: fmt.Sprintf("was bound while %s used the claim, which only one pod may use", before.name),
	})
}

// checkVolumes checks that volumes can be used on the nodes where Berth bound their pods (fit).
func (l *claimLaws) checkVolumes() {
	for _, uid := range slices.Sorted(maps.Keys(l.evidence.pods)) {
		p := l.evidence.pods[uid]
		if !p.ours() || p.initially {
			continue
		}
		reserved, node := l.placed.find(uid, p.token), l.evidence.nodeNamed(p.node, p.bound.rv)
		if reserved == nil || node == nil {
			continue
		}
		names := l.evidence.claims.of(p.last().pod)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			claim := l.evidence.claims.volumeClaims[name]
			if claim == nil {
				continue
			}
			volume := l.evidence.claims.volumes[claim.Spec.VolumeName]
			admits := func(v version[*corev1.Node]) bool { return volumeAdmits(volume, v.object) }
			if !slices.ContainsFunc(within(node.versions, reserved.knownNodes, p.bound.rv), admits) {
				l.found.report.add(Finding{
					Severity: Violation, Invariant: "fit", ResourceVersion: p.bound.rv,
					Objects: []string{p.object(), nodeObject(p.node), volumeClaimObject(name)},
					Message: fmt.Sprintf("was bound to a node where volume %s cannot be used", volume.Name),
				})
			}
		}
	}
}

// checkDevices checks that a device is in one claim at a time (S15).
func (l *claimLaws) checkDevices() {
	byDevice := map[string][]*tenure{}
	for _, uid := range slices.Sorted(maps.Keys(l.evidence.claims.devices)) {
		for _, t := range l.evidence.claims.devices[uid].tenures {
			byDevice[t.device] = append(byDevice[t.device], t)
		}
	}
	for _, device := range slices.Sorted(maps.Keys(byDevice)) {
		all := byDevice[device]
		slices.SortStableFunc(all, func(s, t *tenure) int { return cmp.Compare(s.from.rv, t.from.rv) })
		for i, t := range all {
			for _, before := range all[:i] {
				l.shareDevice(before, t)
			}
		}
	}
}

func (l *claimLaws) shareDevice(before, t *tenure) {
	if before.claim == t.claim || t.from.after == 0 || before.until.maybe(t.from.rv) {
		return
	}
	l.found.report.add(Finding{
		Severity: ownFault(l.oursAlone(t.claim) && l.oursAlone(before.claim)), Invariant: "S15",
		ResourceVersion: t.from.rv,
		Objects:         []string{deviceClaimObject(t.claim.name), deviceClaimObject(before.claim.name)},
		Message:         fmt.Sprintf("was allocated device %s, which %s had", t.device, before.claim.name),
	})
}

// oursAlone reports whether a claim was reserved only for pods that no scheduler but Berth has bound.
func (l *claimLaws) oursAlone(c *deviceClaimLife) bool {
	for uid := range c.reserved {
		if p := l.evidence.pods[uid]; p == nil || p.bound.known() && !p.ours() {
			return false
		}
	}
	return len(c.reserved) > 0
}
