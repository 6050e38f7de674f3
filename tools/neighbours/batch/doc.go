// Package batch pins Kueue, JobSet and LeaderWorkerSet, which the tests of neighbours run beside both schedulers. They
// are in one module because Kueue requires the other two: these are the versions that it is tested with, and they are
// built from the same libraries. The driver of local clusters builds the programs.
package batch
