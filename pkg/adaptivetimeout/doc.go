// Package adaptivetimeout bounds the wait for answers that may never come. A request that was on
// its way to a server which died, hangs, or hands its leadership over is not answered at all, and a repeated request,
// once another server has taken over, is answered in milliseconds. A slow server, on the other hand, must be waited
// for: a timeout below its latency would never see an answer. So the first wait is short, and each one without an
// answer is followed by one twice as long.
//
// A fixed short timeout fails with a slow server, a fixed long one adds its length to every failover.
//
// Invariant: a limit is never below the first nor above the most. Start reading at Timeout.
package adaptivetimeout
