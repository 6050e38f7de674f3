// Package patience bounds the wait for answers that may never come. A request that was on its way to a
// server which died, hangs, or hands its part over is not answered at all, and asking again, once another
// has taken over, is answered in milliseconds; but a server that is slow has to be waited for. So the
// first wait is short, and each one without an answer is followed by one twice as long.
//
// Invariant: a limit is never below the first nor above the most. Start reading at Patience.
package patience
