package avoid

import (
	"time"
)

// pause is a period of avoiding something. If it begins again soon after, it lasts longer.
type pause struct {
	// until is its end, last its latest beginning.
	until, last time.Time
	// times is how often in a row it has begun.
	times int
}

// backoff is the length of the first pause, the maximum length, and how long after a pause the next counts as a
// first again.
type backoff struct{ first, most, forgets time.Duration }

// maxDoublings keeps the shift from overflowing; every backoff reaches its maximum before.
const maxDoublings = 16

// begin starts a pause, twice as long as the last one if that was not long ago.
func (p *pause) begin(now time.Time, b backoff) {
	if now.Sub(p.last) > b.forgets {
		p.times = 0
	}
	d := b.most
	if p.times < maxDoublings {
		d = min(b.first<<p.times, b.most)
	}
	p.times++
	p.last = now
	p.until = now.Add(d)
}

// on reports whether the pause lasts.
func (p *pause) on(now time.Time) bool { return now.Before(p.until) }

// over reports whether the pause has ended so long ago that the next is a first one.
func (p *pause) over(now time.Time, b backoff) bool { return !p.on(now) && now.Sub(p.last) > b.forgets }
