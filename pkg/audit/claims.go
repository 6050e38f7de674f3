package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/audit/fit"
)

// claimLaws checks which pod used which claim, and which claim had which device, after the walk (S14, S15, fit). It
// reads the objects of the API server alone: that the ledger's documents of volumes and pools exclude others is a
// means to this end.
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

// checkClaimsForOne checks that a claim for a single pod (ReadWriteOncePod) has one user at a time (S14). Source:
// KEP-2485.
func (l *claimLaws) checkClaimsForOne() {
	users := map[string][]*podHistory{}
	for _, uid := range slices.Sorted(maps.Keys(l.evidence.pods)) {
		p := l.evidence.pods[uid]
		if !p.bound.happened() {
			continue
		}
		for name := range l.evidence.claims.of(p.last().pod) {
			if singlePod(l.evidence.claims.volumeClaims[name]) {
				users[name] = append(users[name], p)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		all := users[name]
		slices.SortStableFunc(all, func(p, q *podHistory) int { return cmp.Compare(p.bound.rv, q.bound.rv) })
		for i, p := range all {
			for _, before := range all[:i] {
				l.checkSharedClaim(name, before, p)
			}
		}
	}
}

// checkSharedClaim reports a pod that was bound while another one had the same claim, unless the other one may have
// ended before.
func (l *claimLaws) checkSharedClaim(name string, before, p *podHistory) {
	if p.initially || before.ended.possibleBy(p.bound.rv) {
		return
	}
	l.found.report.add(Finding{
		Severity: severityFor(p.boundByBerth() && before.boundByBerth()), Invariant: "S14", ResourceVersion: p.bound.rv,
		Objects: []string{p.object(), before.object(), volumeClaimObject(name)},
		Message: fmt.Sprintf("was bound while %s used the claim, which only one pod may use", before.name),
	})
}

// checkVolumes checks that volumes can be used on the nodes where Berth bound their pods (fit).
func (l *claimLaws) checkVolumes() {
	for _, uid := range slices.Sorted(maps.Keys(l.evidence.pods)) {
		p := l.evidence.pods[uid]
		if !p.boundByBerth() || p.initially {
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
			admits := func(v version[*corev1.Node]) bool { return fit.VolumeAdmits(volume, v.object) }
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
	byDevice := map[string][]*deviceAllocation{}
	for _, uid := range slices.Sorted(maps.Keys(l.evidence.claims.devices)) {
		for _, t := range l.evidence.claims.devices[uid].allocations {
			byDevice[t.device] = append(byDevice[t.device], t)
		}
	}
	for _, device := range slices.Sorted(maps.Keys(byDevice)) {
		all := byDevice[device]
		slices.SortStableFunc(all, func(s, t *deviceAllocation) int { return cmp.Compare(s.from.rv, t.from.rv) })
		for i, t := range all {
			for _, before := range all[:i] {
				l.checkSharedDevice(before, t)
			}
		}
	}
}

// checkSharedDevice reports a device that a claim got while another claim had it, unless the other one may have lost
// it before, or the allocation is older than the recording.
func (l *claimLaws) checkSharedDevice(before, t *deviceAllocation) {
	if before.claim == t.claim || t.from.after == 0 || before.until.possibleBy(t.from.rv) {
		return
	}
	l.found.report.add(Finding{
		Severity: severityFor(l.onlyBerthBound(t.claim) && l.onlyBerthBound(before.claim)), Invariant: "S15",
		ResourceVersion: t.from.rv,
		Objects:         []string{deviceClaimObject(t.claim.name), deviceClaimObject(before.claim.name)},
		Message:         fmt.Sprintf("was allocated device %s, which %s had", t.device, before.claim.name),
	})
}

// onlyBerthBound reports whether a claim was reserved only for pods that no scheduler but Berth has bound. It is false
// for a claim that was never reserved, and for one that was reserved for a pod outside the history: another client may
// have allocated its devices.
func (l *claimLaws) onlyBerthBound(c *deviceClaimHistory) bool {
	for uid := range c.reserved {
		if p := l.evidence.pods[uid]; p == nil || p.bound.happened() && !p.boundByBerth() {
			return false
		}
	}
	return len(c.reserved) > 0
}
