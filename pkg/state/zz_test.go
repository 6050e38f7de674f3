package state_test
import ("testing";"runtime";"github.com/berth-scheduler/berth/pkg/state";"github.com/berth-scheduler/berth/pkg/events";"syscall";"fmt")
func TestCPU(t *testing.T){
 runtime.LockOSThread()
 n:=50000
 for _,f:=range []fleet{{pods:n,perTemplate:1}} {
 var batches [][]events.SequencedFact
 f.each(func(f []events.SequencedFact) { batches = append(batches, f) })
 for range 2 {
 runtime.GC(); runtime.GC()
 var a,c,d,e syscall.Rusage
 s:=state.New()
 syscall.Getrusage(1,&d); syscall.Getrusage(0,&a)
 for _,b:=range batches { s.Apply(b) }
 syscall.Getrusage(1,&e); syscall.Getrusage(0,&c)
 us:=func(x,y syscall.Rusage) int64 { return (y.Utime.Nano()+y.Stime.Nano()-x.Utime.Nano()-x.Stime.Nano())/int64(n) }
 fmt.Println(f, "thread ns/pod",us(d,e),"process ns/pod",us(a,c))
 runtime.KeepAlive(s)
 }}
}
