# Page: the HTML of a report: what is said in words, the places that the script fills, the look. It refers to nothing outside of
# itself, and its policy forbids the browser to fetch anything. Names come into it as text only: here escaped, in the
# script by textContent.
package Page;

# Of parts as Report::part makes them: one, or one tab for each process.
sub html {
	my @parts = @_;
	my $title = escape("$parts[0]{program} heap report");
	return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
		. qq{<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">\n}
		. qq{<meta name="viewport" content="width=device-width,initial-scale=1"><title>$title</title>\n<style>} . style() . "</style></head>\n<body>\n"
		. "<header><h1>$title</h1>\n" . (@parts > 1 ? tabs(@parts) : $parts[0]{words})
		. join('', map { '<p>' . escape($_) . "</p>\n" } @{ $parts[0]{said} // [] }) . "</header>\n" . body()
		. join('', map { "<script type=\"application/json\" id=\"data" . ($_ || '') . "\" data-form=\"$parts[$_]{form}\">$parts[$_]{data}</script>\n" } 0 .. $#parts)
		. '<script>' . Script::model() . "</script>\n<script>" . Script::view() . "</script>\n</body></html>\n";
}

# A button for each process, and its words: only those of the chosen one are shown.
sub tabs {
	my @parts = @_;
	my @buttons = map { my $part = $parts[$_];
		sprintf '<button type="button" role="tab" aria-selected="%s">%s %s <b>%s</b></button>', $_ ? 'false' : 'true', map { escape($_) } @$part{qw(program pid size)} } 0 .. $#parts;
	return sprintf("<p>%d processes</p>\n<div id=\"tabs\" role=\"tablist\">%s</div>\n", scalar @parts, join "\n", @buttons)
		. join '', map { '<div class="process"' . ($_ ? ' hidden' : '') . ">\n$parts[$_]{words}</div>\n" } 0 .. $#parts;
}

sub summary {
	my ($work) = @_;
	return join('', map { "<p>$_</p>\n" } words($work)) . rss_bar($work);
}

sub escape { return Flame::escape($_[0]) }

sub bold { return '<b>' . escape($_[0]) . '</b>' }

# Sentences: what is held, its course, its owners.
sub words {
	my ($work) = @_;
	my $option = $work->{option};
	my @snaps = @{ $work->{snaps} };
	my ($first, $last) = @snaps[0, -1];
	my $held = $option->{index} =~ /alloc/ ? 'allocated' : 'live';
	my $size = sub { Print::human($_[0], $option) };
	my $pid = $last->{dump}->pid;
	my $text = (length $pid ? 'Process ' . escape($pid) . ', ' : '') . (defined $last->{time} ? escape(Series::clock($last->{time})) . ': ' : '')
		. bold($size->($last->{bytes}) . " $held") . sprintf ' in %d objects', $last->{objects};
	my $rate = $last->{dump}{meta}{sample_interval} // $last->{dump}{rate};
	$text .= ', estimated from samples, one for each ' . escape($size->($rate)) . ' allocated' if $rate =~ /^\d+$/ && $rate > 1;
	$text .= ', thread ' . escape($option->{thread}) if length $option->{thread};
	my @out = ("$text.", course($option, @snaps));
	my @owners = @{ $work->{owners} };
	splice @owners, 3 if @owners > 3;
	push @out, (@owners > 1 ? 'Most is held by ' : 'All is held by ')
		. join(', ', map { bold($_->[0]) . ' ' . $size->($_->[1]) . ' (' . Print::percent($_->[1], $last->{bytes}) . ')' } @owners) . '.' if @owners;
	push @out, suspects($option, @{ $work->{suspects} }) if @snaps >= Leaks::LEAST();
	push @out, 'Source lines: by ' . escape($Names::engine) . '.' if length $Names::engine;
	push @out, map { escape("$_.") } Missing::sentences(@{ $work->{missing} });
	push @out, 'Doubts: ' . join('; ', map { escape($_) } @Talk::doubted) . '.' if @Talk::doubted;
	return @out;
}

# Whether something keeps growing, and what most.
sub suspects {
	my ($option, @suspects) = @_;
	my $count = @suspects;
	return 'No stack keeps growing.' if !$count;
	splice @suspects, 3 if $count > 3;
	return ($count == 1 ? '1 stack keeps growing: ' : "$count stacks keep growing: ") . join(', ', map {
		bold($_->{names}[0]) . ' by ' . escape(defined $_->{rate} ? Series::rate_text($_->{rate}, 1, $option) : Print::human($_->{grown}, $option))
	} @suspects) . ($count > 3 ? ', and ' . ($count - 3) . ' more.' : '.');
}

sub course {
	my ($option, @snaps) = @_;
	return () if @snaps < 2;
	my ($first, $last) = @snaps[0, -1];
	my ($peak) = sort { $b->{bytes} <=> $a->{bytes} } @snaps;
	my $change = $last->{bytes} - $first->{bytes};
	my $text = sprintf 'The largest of %d snapshots has %s%s; from the first to the last %s', scalar @snaps, bold(Print::human($peak->{bytes}, $option)),
		defined $peak->{time} ? ' (' . Series::clock($peak->{time}) . ')' : '', bold(Series::signed($change, $option));
	my $span = defined $first->{time} && defined $last->{time} ? $last->{time} - $first->{time} : 0;
	$text .= sprintf ' in %s, %s', span_text($span), bold(Series::rate_text($change, $span / 60, $option)) if $span >= 1;
	return "$text." . ($last->{bytes} * 10 < $peak->{bytes} ? ' The largest is shown first.' : '');
}

sub span_text {
	my ($seconds) = @_;
	return $seconds < 120 ? sprintf '%.1f s', $seconds : $seconds < 7200 ? sprintf '%.1f min', $seconds / 60 : sprintf '%.1f h', $seconds / 3600;
}

# What the resident memory consists of: [what, bytes], from the figures in the head of the last dump; none if it has none.
sub rss_parts {
	my ($work) = @_;
	my $meta = $work->{snaps}[-1]{dump}{meta};
	my ($allocated, $active, $resident, $rss) = map { ($meta->{$_} // '') =~ /^(\d{1,15})$/ ? $1 : return } qw(allocated active resident rss);
	return if $allocated > $active || $active > $resident;
	my @parts = (['allocated', $allocated], ['free between objects', $active - $allocated], ['kept for reuse, and records of the allocator', $resident - $active]);
	push @parts, ['not of the allocator (code, stacks, files)', $rss - $resident] if $rss > $resident;
	return ($rss, @parts);
}

sub rss_bar {
	my ($work) = @_;
	my ($rss, @parts) = rss_parts($work);
	return '' unless defined $rss && $rss > 0;
	my $sum = 0;
	$sum += $_->[1] for @parts;
	my $option = $work->{option};
	my $text = '<p>Resident: ' . bold(Print::human($rss, $option)) . ' = '
		. join(' + ', map { "<span class=\"one\"><i class=\"k$_\"></i>" . Print::human($parts[$_][1], $option) . "</span> $parts[$_][0]" } 0 .. $#parts);
	$text .= '; part of the last two is not in memory now' if $rss < $sum;
	return "$text.</p>\n<div class=\"bar\" aria-hidden=\"true\">"
		. join('', map { sprintf '<i class="k%d" style="width:%.2f%%"></i>', $_, 100 * $parts[$_][1] / $sum } 0 .. $#parts) . "</div>\n";
}

sub body {
	return <<'BODY';
<noscript><p>The pictures and tables below need JavaScript; nothing is fetched.</p></noscript>
<main>
<nav aria-label="View">
<label>Snapshot <select id="snap"></select></label>
<label>compared with <select id="from"></select></label>
<label>by <select id="metric"><option value="b">bytes</option><option value="o">objects</option></select></label>
<label id="l-thread" hidden>thread <select id="thread"></select></label>
<label>Search <input id="find" type="search" size="18" placeholder="/ name or regexp"></label>
<output id="found" aria-live="polite"></output>
</nav>
<section id="s-course"><h2>Course</h2><canvas id="course" height="150" tabindex="0" aria-label="Course of memory over time; the keys [ and ] choose a snapshot"></canvas><p class="key" id="course-key"></p></section>
<section><h2>Flame graph</h2><p class="tools"><button id="way" type="button"></button>
<label>colour <select id="colour"><option value="n">by name</option><option value="m">by module</option><option value="g">by growth</option></select></label>
<label><input id="whole" type="checkbox"> with wrappers of malloc</label> <button id="out" type="button">zoom out (Esc)</button></p>
<canvas id="flame" tabindex="0" aria-label="Flame graph; arrows choose a box, Enter zooms, Escape zooms out"></canvas>
<p id="told" class="key" aria-live="polite"></p></section>
<section><h2>Functions</h2><div class="wide"><table id="functions"></table></div><p><button id="more" type="button"></button></p></section>
<section id="s-one" hidden><h2 id="one-name"></h2><p class="key" id="one-sum"></p><div class="two"><div><h3>Callers</h3><table id="callers"></table></div><div><h3>Callees</h3><table id="callees"></table></div></div></section>
<section><h2>Growth</h2><p class="key" id="growth-key"></p><div class="wide"><table id="growth"></table></div></section>
<section id="s-suspects"><h2>Suspects</h2><p class="key">What grew in nearly all steps and goes on growing; not what was loaded once, filled and then stayed, or came and went.</p><div class="wide"><table id="suspects"></table></div></section>
<section><h2>Heaviest stacks</h2><div id="stacks"></div></section>
<section id="s-threads"><h2>Threads</h2><table id="threads"></table></section>
<section><h2>About this snapshot</h2><table id="meta"></table></section>
<p class="key">Keys: / search, [ ] snapshot, f flame or icicle, c colour, w wrappers, Esc out; in the graph arrows, Enter. The address of this page holds the view.</p>
</main>
BODY
}

sub style {
	return <<'STYLE' =~ s/\n//gr;
:root{--bg:#fff;--fg:#1b1e23;--dim:#667;--line:#d8dbe2;--soft:#f3f4f7;--link:#1a5fb4;--up:#c01c28;--down:#1a5fb4;
--k0:#3584e4;--k1:#f6a04d;--k2:#a98bd8;--k3:#9aa2ae;color-scheme:light dark}
@media (prefers-color-scheme:dark){:root{--bg:#17191d;--fg:#e4e6ea;--dim:#9aa0ab;--line:#383c44;--soft:#22252b;--link:#78aeed;--up:#ff7b72;--down:#78aeed}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1400px;padding:12px 20px;background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5em;margin:.2em 0}h2{font-size:1.15em;margin:1.2em 0 .3em}h3{font-size:1em;margin:.4em 0}
header p{margin:.3em 0}
nav{position:sticky;top:0;background:var(--bg);border-bottom:1px solid var(--line);padding:6px 0;display:flex;flex-wrap:wrap;gap:6px 14px;align-items:center;z-index:1}
select,input,button{font:inherit;color:inherit;background:var(--soft);border:1px solid var(--line);border-radius:4px;padding:1px 6px;max-width:100%}
canvas{display:block;width:100%}canvas:focus,a:focus-visible,button:focus-visible{outline:2px solid var(--link)}
.key,.tools{color:var(--dim);margin:.3em 0;min-height:1.45em}.tools>*{margin-right:10px}button{color:var(--fg)}button:disabled{color:var(--dim);opacity:.6}
.one{white-space:nowrap}#course-key{display:flex;flex-wrap:wrap;gap:0 1em}.tools label{white-space:nowrap}
.bar{display:flex;height:14px;border-radius:3px;overflow:hidden;margin:4px 0 8px}.bar i{display:block}
i[class]{display:inline-block;min-width:1px}p i[class]{width:.8em;height:.8em;border-radius:2px;margin-right:.3em}
.k0{background:var(--k0)}.k1{background:var(--k1)}.k2{background:var(--k2)}.k3{background:var(--k3)}
table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:1px 10px 1px 0;vertical-align:top;white-space:nowrap}
th{font-weight:600;border-bottom:1px solid var(--line)}td{font-variant-numeric:tabular-nums}
th.t,td.t{text-align:left;white-space:normal;width:55%}tr.hit td{background:#fd46}
.wide{overflow-x:auto}.two{display:grid;grid-template-columns:1fr 1fr;gap:20px}
a{color:var(--link);cursor:pointer;text-decoration:none;overflow-wrap:anywhere}a:hover{text-decoration:underline}
.up{color:var(--up)}.down{color:var(--down)}.dim{color:var(--dim)}
[role=tablist]{display:flex;flex-wrap:wrap;gap:4px;border-bottom:1px solid var(--line)}[role=tab]{border-radius:4px 4px 0 0;border-bottom:0}
[aria-selected=true]{background:var(--bg);box-shadow:inset 0 3px var(--link)}
details{border-top:1px solid var(--line);padding:3px 0}ol{margin:.3em 0 .3em 2em;padding:0;font-family:monospace;font-size:.92em}
@media (max-width:700px){body{padding:8px}.two{grid-template-columns:1fr}nav{position:static}th,td{padding-right:6px}.opt{display:none}td.t{min-width:8em}}
@media print{:root{--bg:#fff;--fg:#000;--dim:#444;--line:#bbb}nav,button,.tools{display:none}section{break-inside:avoid}body{max-width:none}}
STYLE
}
