# Picture: the graph of a view (Main::view), as text for dot (of Graphviz) and as the picture that dot
# draws of it. Nodes are entries, edges go from callers to callees. Callers: Main, Open (drawn).
package Picture;

# The graph as dot reads it: the heaviest nodes, and the edges among them that dot_edges() keeps.
# Percentages are of the sum; letters and lines are as large as the share in the largest amount,
# which in a difference may be above the sum.
sub dot_text {
	my ($view) = @_;
	my $option = $view->{option};
	my $sum = $view->{sum};
	my $whole = abs $sum->{kept};
	my ($node_cut, $edge_cut) = ($option->{nodefraction} * $whole,
		$option->{edgefraction} * $whole);
	my @order = sort { abs $sum->{cum}[$b] <=> abs $sum->{cum}[$a] || $a <=> $b } $sum->order(1);
	my @nodes = grep { abs $sum->{cum}[$_] > $node_cut } @order;
	splice @nodes, $option->{nodecount} if @nodes > $option->{nodecount};
	my %number;
	@number{@nodes} = map { "N$_" } 1 .. @nodes;
	my $unit = Print::unit($option);
	my @legend = (quoted($view->{program}), "Total $unit: " . Print::amount($sum->{total}, $option),
		'Focusing on: ' . Print::amount($sum->{kept}, $option),
		'Dropped nodes with <= ' . Print::amount($node_cut, $option) . " abs($unit)",
		'Dropped edges with <= ' . Print::amount($edge_cut, $option) . " $unit");
	my ($size) = sort { $b <=> $a } $whole, map { abs } grep { $_ } @{ $sum->{flat} }, @{ $sum->{cum} };
	my $text = sprintf "digraph \"%s; %s %s\" {\nnode [width=0.375,height=0.25];\n",
	    quoted($view->{program}),
	    Print::amount($sum->{total}, $option), $unit;
	$text .= 'Legend [shape=box,fontsize=24,shape=plaintext,label="'
	    . join('', map { "$_\\l" } @legend) . "\"];\n";
	$text .= join '', map { dot_node($sum, $_, $number{$_}, $option, $whole, $size) } @nodes;
	$text .= join '', map { dot_edge($_, $size, $option) }
	    dot_edges($sum->edges_among($view->{stacks}, $option, \%number), \%number, $edge_cut,
		$option->{maxdegree});
	return "$text}\n";
}

# A text as it stands between double quotes in the language of dot.
sub quoted {
	my ($text) = @_;
	$text =~ s/(["\\])/\\$1/g;
	return $text;
}

# The line of a node $name; $whole: the sum of which percentages are shown; $size: the largest
# amount of all nodes, which gets the largest letters.
sub dot_node {
	my ($sum, $entry, $name, $option, $whole, $size) = @_;
	my ($flat, $cum) = ($sum->{flat}[$entry] // 0, $sum->{cum}[$entry]);
	my $label = quoted($sum->{label}[$entry]);
	$label =~ s/::/\\n/g;
	$label .= '\n' . Print::amount($flat, $option) . ' (' . Print::percent($flat, $whole) . ')\r';
	$label .= 'of ' . Print::amount($cum, $option) . ' (' . Print::percent($cum, $whole) . ')\r'
	    if $cum != $flat;
	my $style = !$option->{heapcheck} || !$flat ? '' : $flat > 0 ? ',style=filled,fillcolor=gray'
	    : ',peripheries=3';
	return sprintf "%s [label=\"%s\",shape=box,fontsize=%.1f%s];\n", $name, $label,
	    8 + 50 * sqrt(abs $flat / $size), $style;
}

# [from, to, value] of edges between shown nodes (%$number: entry => name), heaviest first, at most
# $degree into a node and $degree out of it, and none whose absolute value is $cut or less.
sub dot_edges {
	my ($edges, $number, $cut, $degree) = @_;
	my (@kept, %out, %in);
	for my $edge (sort { abs $edges->{$b} <=> abs $edges->{$a} || $a cmp $b } keys %$edges) {
		my ($from, $to) = split / /, $edge;
		next unless $number->{$from} && $number->{$to} && abs $edges->{$edge} > $cut;
		next if ($out{$from} // 0) >= $degree || ($in{$to} // 0) >= $degree;
		$out{$from}++;
		$in{$to}++;
		push @kept, [$number->{$from}, $number->{$to}, $edges->{$edge}];
	}
	return @kept;
}

# The line of such an edge; $size as above.
sub dot_edge {
	my ($edge, $size, $option) = @_;
	my ($from, $to, $value) = @$edge;
	my $weight = abs($value)**0.7;
	my $width = 20 * abs($value) / $size;
	return sprintf "%s -> %s [label=%s, weight=%d, style=\"setlinewidth(%f)\"];\n", $from, $to,
	    Print::amount($value, $option), $weight > 100000 ? 100000 : $weight,
	    $width > 2 ? 2 : $width;
}

# Prints the graph for dot.
sub dot {
	my ($view) = @_;
	print dot_text($view);
}

# The graph as drawn by dot in this format; fails if dot is not there.
sub drawn {
	my ($view, $format) = @_;
	my $mode = $view->{option}{mode} eq 'svg_graph' ? 'svg=graph' : $view->{option}{mode};
	my $dot = Tool::find('dot')
	    or Talk::fail(1,
		"--$mode needs the program dot (package graphviz), which is not installed");
	return Tool::filter([$dot, "-T$format"], dot_text($view)) // Talk::fail(1, "$dot failed");
}

# Prints the graph as drawn by dot in this format.
sub draw {
	my ($view, $format) = @_;
	my $data = drawn($view, $format);
	binmode STDOUT;
	print $data;
}
