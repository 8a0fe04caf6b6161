package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Text is the report for people, in its language.
func (r Report) Text() string {
	var b strings.Builder
	say := r.say
	fmt.Fprintf(&b, "\nbench %s · %s · %s\n", r.Mode, r.Server, r.Machine)
	if r.Backend != "" {
		fmt.Fprintf(&b, "  %s\n", strings.Join(append([]string{r.Backend, r.Broker, fmt.Sprintf("%s %d", say("实例", "instances"), r.Instances)}, r.Stores...), " · "))
	}
	if d := r.Delayed; d != nil {
		fmt.Fprintf(&b, "  %s %d (%s %d), %s\n", say("延迟消息", "delayed messages"), d.Messages, say("结束时", "at the end"), d.Left, d.Queue)
	}
	switch {
	case r.Grab != nil:
		r.Grab.text(&b, say)
	case r.Read != nil:
		r.Read.text(&b, say)
	case r.Latency != nil:
		r.Latency.text(&b, say)
	case r.Drain != nil:
		r.Drain.text(&b, say)
	case r.Start != nil:
		r.Start.text(&b, say)
	}
	if l := r.LatencyMs; l.Max > 0 {
		fmt.Fprintf(&b, "  %s p50 %.1f ms · p95 %.1f ms · p99 %.1f ms · max %.1f ms\n", say("延迟", "latency"), l.P50, l.P95, l.P99, l.Max)
	}
	if l := r.Limits; l != nil {
		fmt.Fprintf(&b, "  %s %d/%d/%d\n", say("限流 全局/IP/用户（次/秒）", "limits global/IP/user (per second)"), l.Global, l.IP, l.User)
	}
	if r.Restarts > 0 {
		fmt.Fprintf(&b, "  %s %d\n", say("服务重启次数", "server restarts"), r.Restarts)
	}
	if v := r.Invariants; v != nil {
		v.text(&b, say)
	}
	if len(r.Checks) > 0 {
		fmt.Fprintf(&b, "%s\n", say("阈值", "thresholds"))
	}
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "  %s %s (%s)\n", mark(c.OK), c.Text, figure(c.Actual, 3))
	}
	fmt.Fprintf(&b, "%s: %s\n", say("复现", "again"), r.CommandLine)
	return b.String()
}

// say picks the text of the report's language.
func (r Report) say(zh, en string) string {
	if r.lang == "en" {
		return en
	}
	return zh
}

type speech func(zh, en string) string

func (f *GrabFigures) text(b *strings.Builder, say speech) {
	fmt.Fprintf(b, "  %s %d · %s %d · %s %d\n", say("用户", "users"), f.Users, say("库存", "stock"), f.Stock.Total, say("每人限购", "limit"), f.LimitPerUser)
	fmt.Fprintf(b, "  %s %d = %s %d + %s %d + %s %d + %s %d + %s %d\n", say("抢购请求", "attempts"), f.Attempted,
		say("抢到", "accepted"), f.Accepted, say("售罄", "sold out"), f.SoldOut, say("重复", "repeat"), f.Repeat,
		say("拒绝", "refused"), f.Refused, say("无答复", "errors"), f.Errors)
	fmt.Fprintf(b, "  %s %s/s · %s %s/s · GET /time %s/s\n", say("接受", "accepted"), figure(f.AcceptRPS, 0),
		say("落库", "written"), figure(f.WrittenRPS, 0), figure(f.TimeRPS, 0))
	fmt.Fprintf(b, "  %s %s (%s %s) · %s %s (%s %s)\n", say("与 /time 之比", "ratio to /time"), figure(f.RatioToTime, 2), say("售罄后", "sold out"), figure(f.SoldOutRatioToTime, 2),
		say("CPU 之比", "CPU ratio"), figure(f.CPURatio, 2), say("售罄后", "sold out"), figure(f.SoldOutCPURatio, 2))
	if len(f.CPUMicrosByProgram) > 1 {
		fmt.Fprintf(b, "  %s", say("每单 CPU µs", "CPU µs per order"))
		for _, program := range slices.Sorted(maps.Keys(f.CPUMicrosByProgram)) {
			fmt.Fprintf(b, " · %s %.1f", program, f.CPUMicrosByProgram[program])
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintf(b, "  %s %.0f ms · %s %d · %s %d · %s %s/%d\n", say("排空", "drain"), f.DrainMs, say("有效订单", "live orders"), f.Orders.Live,
		say("失败订单", "failed orders"), f.Orders.Failed, say("余量 闸口/数据库", "left gate/db"), integer(f.Stock.Gate), f.Stock.DB)
}

func (f *ReadFigures) text(b *strings.Builder, say speech) {
	fmt.Fprintf(b, "  %s %d · %s %d\n", say("请求", "requests"), f.Requests, say("出错", "errors"), f.Errors)
	fmt.Fprintf(b, "  %s %s/s · GET /time %s/s · %s %s · %s %s\n", say("速率", "rate"), figure(f.RPS, 0), figure(f.TimeRPS, 0),
		say("与 /time 之比", "ratio to /time"), figure(f.RatioToTime, 2), say("CPU 之比", "CPU ratio"), figure(f.CPURatio, 2))
}

func (f *LatencyFigures) text(b *strings.Builder, say speech) {
	fmt.Fprintf(b, "  %s %s/s · %s %.0f/s\n", say("最高速率", "highest rate"), figure(f.MaxRPS, 0), say("开环速率", "open loop at"), f.OpenRate)
	for _, l := range []struct {
		name string
		loop OpenLoop
	}{{say("抢到", "accepted"), f.Grab}, {"GET /time", f.Time}} {
		fmt.Fprintf(b, "  %s: %d, %s %d, p50 %.2f · p95 %.2f · p99 %.2f · max %.1f ms\n", l.name, l.loop.Answered, say("其余", "others"), l.loop.Failed, l.loop.P50, l.loop.P95, l.loop.P99, l.loop.Max)
	}
	fmt.Fprintf(b, "  p99 %s %s\n", say("之比", "ratio"), figure(f.P99Ratio, 2))
}

func (f *DrainFigures) text(b *strings.Builder, say speech) {
	for _, d := range []struct {
		name string
		rate DrainRate
	}{{say("批量写", "batched"), f.Batched}, {say("逐单写", "one by one"), f.Naive}} {
		fmt.Fprintf(b, "  %s: %d %s, %.2f s, %s/s\n", d.name, d.rate.Orders, say("单", "orders"), d.rate.Seconds, figure(d.rate.RPS, 0))
	}
	fmt.Fprintf(b, "  %s %s\n", say("倍数", "ratio"), figure(f.Speedup, 1))
}

func (f *StartFigures) text(b *strings.Builder, say speech) {
	fmt.Fprintf(b, "  %s %.0f ms · %s %.0f ms\n", say("首次启动", "first start"), f.StartMs.First, say("再次启动", "next start"), f.StartMs.Second)
	fmt.Fprintf(b, "  %s serve %s MB · demo %s MB\n", say("静止内存", "memory at rest"), figure(f.RSSMB.Serve, 1), figure(f.RSSMB.Demo, 1))
}

func (v *Invariants) text(b *strings.Builder, say speech) {
	fmt.Fprintf(b, "%s\n", say("不变量", "invariants"))
	for _, c := range []struct {
		zh, en string
		n      int
	}{
		{"超卖", "oversold", v.Oversold}, {"超过限购", "over the limit", v.OverLimit}, {"丢单", "lost", v.Lost}, {"幽灵单", "ghost", v.Ghost},
		{"时间窗外成交", "outside the window", v.OutsideWindow}, {"一单两主", "one id, two users", v.Duplicate}, {"重放不一致", "wrong replay", v.WrongReplay},
		{"答复有误", "wrong answer", v.WrongAnswer}, {"未了结", "unsettled", v.Unsettled}, {"消息丢失后补回", "recovered after a lost message", v.Recovered},
	} {
		fmt.Fprintf(b, "  %s %s %d\n", mark(c.n == 0), say(c.zh, c.en), c.n)
	}
	fmt.Fprintf(b, "  %s %s\n", mark(v.GateEqualsDB), say("闸口 = 数据库", "gate = database"))
	fmt.Fprintf(b, "  %s %s\n", mark(v.Conserved), say("库存守恒", "stock conserved"))
	fmt.Fprintf(b, "  %s %s\n", mark(v.AtRest), say("已静止", "at rest"))
	for _, d := range v.Details {
		fmt.Fprintf(b, "    %s\n", d)
	}
}

func mark(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}

func figure(v *float64, decimals int) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.*f", decimals, *v)
}

func integer(v *int64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprint(*v)
}
