# Flame: a flame graph as one SVG, drawn here. Roots at the bottom, width is what $option->{index}
# counts (bytes), the title of a box says its name, its sum and its share; a click zooms, / searches
# and tells the share of what it finds. The file refers to nothing outside of itself, and without a
# script it is still the whole picture. Callers: Main (command, draw), Open (draw); Page and Open
# for escape().
package Flame;

# Units of the picture, which are pixels at its usual size: its width, the height of a row of boxes
# and of the lines above them, the width of the narrowest box that is drawn, and of a letter.
use constant { WIDTH => 1200, ROW => 17, HEAD => 46, NARROW => 0.4, LETTER => 6.6 };

# The verb. Profiles are added up; --thread=* is refused. Writes to the file of -o; to stdout with
# "-o -", and without -o if stdout is no terminal or with --json; else to a file in this directory
# that is named after the first profile.
sub command {
	my ($option, @files) = @_;
	Threads::refuse_each($option);
	Main::take_program(\@files);
	@files = Main::newest() unless @files;
	my $work = Main::load($option, @files);
	my $view = Main::view($work, $option, (Main::threads($work, $option))[0]);
	Main::check_sense($work, $view);
	Main::check_names($view);
	my ($root, $label, $shrunk) = tree($view, $option);
	my $text = $option->{json} ? tree_json($root, $label)
	    : draw_tree($view, $option, $root, $label, $shrunk);
	Talk::note("what went away has no box: $shrunk") if length $shrunk;
	return if Writing::try_stdout($option, $text, $option->{json});
	my $file = length $option->{o} ? $option->{o}
	    : Object::base_name($work->{dumps}[0]{file}) . '.svg';
	Writing::file($file, $text);
	print Talk::clean($file), "\n";
	return unless Writing::can_be_read($file);
	Talk::next_is($option->{json} ? ('flame', Options::kept($option), '-o', "$file.svg",
			[map { $_->{file} } @{ $work->{dumps} }]) : ('open', [$file]));
}

# A tree { sum, children } as { name, value, children } from the root on, the form of
# d3-flame-graph: every frame, also those too narrow to be drawn. $label: the names of entries. The
# values are whole numbers that add up: each is from where its box begins to where it ends, both cut
# to whole bytes.
sub tree_json {
	my ($root, $label) = @_;
	my ($text, @todo) = ('', [$root, 'all', '', 0]);
	while (my $item = pop @todo) {
		my ($node, $name, $after, $start) = @$item;
		if (!$node) {
			$text .= $after;
			next;
		}
		my $children = $node->{children};
		my @order = sort { $children->{$b}{sum} <=> $children->{$a}{sum}
			    || $label->[$a] cmp $label->[$b] } keys %$children;
		$text .= sprintf '{"name":%s,"value":%d', Top::json_string($name),
		    int($start + $node->{sum}) - int $start;
		$text .= ',"children":[' if @order;
		push @todo, [undef, '', (@order ? ']' : '') . "}$after"];
		push @todo, reverse map {
			my $at = $start;
			$start += $children->{ $order[$_] }{sum};
			[$children->{ $order[$_] }, $label->[$order[$_]], $_ < $#order ? ',' : '', $at];
		} 0 .. $#order;
	}
	return "$text\n";
}

# (the tree { sum, children by entry } of the stacks of a view that are kept and hold more than 0,
# root first; the names of entries; how many kept stacks hold less than 0, which a box cannot show,
# and how much that is together, as text, '' if none does).
sub tree {
	my ($view, $option) = @_;
	my $root = Reduce::new_tree();
	my ($count, $less) = (0, 0);
	my $sum = Reduce::sum($view->{stacks}, $option, on_stack => sub {
			my ($path, undef, $value) = @_;
			$value < 0 and $count++, $less -= $value;
			Reduce::add_to_tree($root, $value, reverse @$path) if $value > 0;
	});
	my $shrunk = $count ? sprintf '%d %s shrunk by %s', $count,
	    $count == 1 ? 'stack' : 'stacks', amount($less, $option) : '';
	return ($root, $sum->{label}, $shrunk);
}

# A sum of the picture, as text.
sub amount {
	my ($sum, $option) = @_;
	return $option->{index} =~ /objects/ ? sprintf '%d objects', $sum : Print::human($sum, $option);
}

# Boxes [depth (0: the root), left, width, label, sum]: the root, and those that are at least NARROW
# wide; heavier children to the left. left and width are in units of the picture.
sub boxes {
	my ($root, $label) = @_;
	my $scale = $root->{sum} ? WIDTH / $root->{sum} : 0;
	my @boxes;
	my @todo = ([$root, 'all', 0, 0]);
	while (my $item = pop @todo) {
		my ($node, $name, $depth, $left) = @$item;
		push @boxes, [$depth, $left, $node->{sum} * $scale, $name, $node->{sum}];
		my $children = $node->{children};
		for my $entry (sort { $children->{$b}{sum} <=> $children->{$a}{sum}
				    || $label->[$a] cmp $label->[$b] } keys %$children) {
			push @todo, [$children->{$entry}, $label->[$entry], $depth + 1, $left]
			    if $children->{$entry}{sum} * $scale >= NARROW;
			$left += $children->{$entry}{sum} * $scale;
		}
	}
	return sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] } @boxes;
}

# The picture of a view, as text.
sub draw {
	my ($view, $option) = @_;
	return draw_tree($view, $option, tree($view, $option));
}

# The same of what tree() has returned.
sub draw_tree {
	my ($view, $option, $root, $label, $shrunk) = @_;
	my @boxes = boxes($root, $label);
	my $height = HEAD + ROW * ($boxes[-1][0] + 1) + 6;
	my $amount = sub { amount($_[0], $option) };
	my $title = escape(Top::process($view)
		    . (length $view->{tag} ? ", thread $view->{tag}" : '') . Options::filters($option));
	my $text = sprintf qq{<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="monospace" font-size="11">\n},
	    WIDTH, $height, WIDTH, $height;
	$text .= qq{<style>rect{stroke:#fff;stroke-width:.5}g.f{cursor:pointer}g.f:hover rect{stroke:#000}text{pointer-events:none}.hit rect{fill:#a4c}.off{display:none}</style>\n};
	$text .= qq{<rect width="100%" height="100%" fill="#fafafa"/>\n<text x="6" y="16" font-size="13">$title: } . escape($amount->($root->{sum}) . Ages::words($option) . (length $shrunk ? "; not shown: $shrunk" : '')) . qq{</text>\n}
	    . qq{<text id="told" x="6" y="34">click: zoom; the lowest box: back; key / or a click here: search</text>\n};
	$text .= box($_, $height, $root->{sum}, $amount) for @boxes;
	return $text . script() . "</svg>\n";
}

# A box as SVG; $height is that of the picture, $all the sum of the root, $amount a sub that makes a
# text of a sum.
sub box {
	my ($box, $height, $all, $amount) = @_;
	my ($depth, $left, $width, $name, $sum) = @$box;
	my $room = int(($width - 4) / LETTER);
	my $shown = $room < 3 ? '' : Talk::width($name) <= $room ? $name : Talk::piece($name, 0, $room - 2) . '..';
	my $top = $height - 4 - ROW * ($depth + 1);
	return sprintf qq{<g class="f" data-v="%.0f"><title>%s: %s, %s</title><rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"/><text x="%.2f" y="%d">%s</text></g>\n},
	    $sum, escape($name), escape($amount->($sum)), $all ? Print::percent($sum, $all) : '0.0%', $left, $top,
	    $width, ROW - 1, colour($name), $left + 2, $top + 12, escape($shown);
}

# A warm colour that one name always has.
sub colour {
	my ($name) = @_;
	my $mark = unpack('%32C*', $name) + 7 * length $name;
	return sprintf 'rgb(%d,%d,%d)', 205 + $mark % 50, 90 + $mark * 7 % 120, 40 + $mark * 3 % 40;
}

# A text as it may stand in XML: marks are escaped, and characters that XML forbids are replaced.
sub escape {
	my ($text) = @_;
	$text = Talk::clean($text);
	$text =~ tr{\x80-\xff}{?} unless Talk::is_utf8($text);
	$text =~ s/([&<>"'])/sprintf '&#%d;', ord $1/ge;
	return $text;
}

# The script of the picture. Ends of boxes are rounded to hundredths, and no box is narrower than
# NARROW: two that differ by less than a tenth are equal.
sub script {
	my ($width, $letter) = (WIDTH, LETTER);
	return <<'SCRIPT' =~ s/WIDTH/$width/gr =~ s/LETTER/$letter/gr;
<script><![CDATA[
(function () {
	var told = document.getElementById('told'), usual = told.textContent, boxes = [].slice.call(document.querySelectorAll('g.f'));
	function part(g, name) { return g.getElementsByTagName(name)[0]; }
	boxes = boxes.map(function (g) {
		var r = part(g, 'rect'), title = part(g, 'title').textContent;
		return { g: g, r: r, t: part(g, 'text'), x: +r.getAttribute('x'), w: +r.getAttribute('width'), y: +r.getAttribute('y'), v: +g.dataset.v,
			title: title, name: title.replace(/: [^:]*$/, '') };
	});
	function zoom(to) {
		var k = WIDTH / to.w;
		boxes.forEach(function (b) {
			var over = b.x <= to.x + 0.1 && b.x + b.w >= to.x + to.w - 0.1 && b.y >= to.y;
			var x = over ? 0 : (b.x - to.x) * k, w = over ? WIDTH : b.w * k;
			var on = over || (b.y < to.y && b.x >= to.x - 0.1 && b.x + b.w <= to.x + to.w + 0.1);
			b.g.setAttribute('class', b.g.getAttribute('class').replace(/ off/, '') + (on ? '' : ' off'));
			b.r.setAttribute('x', x); b.r.setAttribute('width', w); b.t.setAttribute('x', x + 2);
			var n = Math.floor((w - 4) / LETTER);
			b.t.textContent = n < 3 ? '' : b.name.length <= n ? b.name : b.name.slice(0, n - 2) + '..';
		});
	}
	function search() {
		var word = prompt('Search (a regular expression)', ''), found = 0, end = -1, re;
		if (word === null) { return; }
		try { re = new RegExp(word); } catch (e) { told.textContent = 'not a regular expression: ' + word; return; }
		var hits = boxes.filter(function (b) {
			var hit = word !== '' && re.test(b.name);
			b.g.setAttribute('class', b.g.getAttribute('class').replace(/ hit/, '') + (hit ? ' hit' : ''));
			return hit;
		}).sort(function (a, b) { return a.x - b.x || b.w - a.w; });
		hits.forEach(function (b) { if (b.x >= end - 0.1) { found += b.v; end = b.x + b.w; } });
		told.textContent = word === '' ? usual : '/' + word + '/: ' + (100 * found / (boxes[0].v || 1)).toFixed(1) + '%';
	}
	boxes.forEach(function (b) { b.g.addEventListener('click', function () { zoom(b); }); });
	told.style.pointerEvents = 'auto';
	told.addEventListener('click', search);
	document.addEventListener('keydown', function (e) { if (e.key === '/') { e.preventDefault(); search(); } });
})();
]]></script>
SCRIPT
}
