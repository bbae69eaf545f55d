# Open: the verb "open" (command): shows a report or picture in a browser, which is started without
# a shell. And the forms that show what they draw: flame() and graph(), called by the output modes
# of Main and the commands of Shell, and listing(), called by Shell alone.
package Open;

# The verb; @files: the file to show, or none for newest(). Fails for a profile, shows other files.
sub command {
	my ($option, @files) = @_;
	Talk::fail(2, 'open takes one file') if @files > 1;
	my $file = shift(@files) // newest();
	my $fh = Input::opened($file);
	Talk::fail(1, "$file: is no regular file") unless -f $fh;
	read $fh, my $head, 4096;
	Talk::fail(2, "$file: a profile; jeprof report $file makes a page of it")
	    if Input::may_be_profile($head // '');
	show($file);
}

# The report of this directory: report.html, whoever made it, else the newest *.html that is_ours().
# Fails with status 2 if there is none.
sub newest {
	return 'report.html' if -e 'report.html';
	my %age = map { $_ => (stat)[9] // 0 } grep { is_ours($_) } glob '*.html';
	my ($file) = sort { $age{$b} <=> $age{$a} || $a cmp $b } keys %age;
	return $file // Talk::fail(2,
		'no report in this directory; jeprof report makes one, jeprof run too');
}

# Whether a file is a report of jeprof, by its title.
sub is_ours {
	my ($file) = @_;
	return 0 unless -f $file && open my $fh, '<:raw', $file;
	read $fh, my $head, 1024;
	return ($head // '') =~ m{<title>[^<]* heap report</title>} ? 1 : 0;
}

# Commands to try with a file, each as [program, arguments]: those of BROWSER (divided by colons, %s
# stands for the file, which else comes last), then the desktop's if DISPLAY or WAYLAND_DISPLAY is
# set. A program that is not in PATH is left out; one told with a "/" is not looked for.
sub browsers {
	my ($path) = @_;
	my @commands;
	for my $text (grep { /\S/ } split /:/, $ENV{BROWSER} // '') {
		my @words = split ' ', $text;
		push @words, '%s' unless $text =~ /%s/;
		push @commands, [map { s/%s/$path/gr } @words];
	}
	push @commands, map { [$_, $path] } qw(xdg-open x-www-browser)
	    if length($ENV{DISPLAY} // '') || length($ENV{WAYLAND_DISPLAY} // '');
	return grep { defined $_->[0] }
	    map { [$_->[0] =~ m{/} ? $_->[0] : Tool::find($_->[0]), @$_[1 .. $#$_]] } @commands;
}

# Starts the first browser that works, which is one that ends with 0, waits for its end, and prints
# the path of the file. If none works, a doubt; the path is printed too.
sub show {
	my ($file) = @_;
	my $path = Cwd::abs_path($file);
	for my $command (browsers($path)) {
		no warnings 'exec';
		return print Talk::clean($path), "\n" if system({ $command->[0] } @$command) == 0;
		Talk::note("$command->[0]: did not work");
	}
	print Talk::clean($path), "\n";
	Talk::doubt('no browser here (BROWSER, or a screen and xdg-open): '
		    . 'copy that one file to where one is; it fetches nothing');
}

# ---- legacy output modes that open what they draw ----
# Writes $text to a new temporary file and returns its name. It stays, for the viewer may come back
# to it.
sub own_file {
	my ($view, $suffix, $text) = @_;
	require File::Temp;
	my $name = Object::base_name($view->{program}) =~ s/[^\w.+-]/_/gr;
	my $fh = File::Temp->new(TEMPLATE => "jeprof.$name.XXXXXX", TMPDIR => 1, SUFFIX => $suffix,
		UNLINK => 0);
	binmode $fh;
	my $is_written = print({$fh} $text) && close $fh;
	return $fh->filename if $is_written;
	my $reason = $!;
	unlink $fh->filename;
	Talk::fail(1, $fh->filename . ": $reason");
}

# Shows the flame graph of a view in a browser.
sub flame {
	my ($view) = @_;
	show(own_file($view, '.svg', Flame::draw($view, $view->{option})));
}

# Shows the graph of a view, as drawn by dot in this format, in the viewer gv or evince, and waits
# for its end. Fails if the viewer or dot is not there or fails.
sub graph {
	my ($view, $viewer, $format) = @_;
	my $program = Tool::find($viewer)
	    or Talk::fail(1, "--$viewer needs the program $viewer, which is not installed");
	my $file = own_file($view, $format eq 'pdf' ? '.pdf' : '.ps', Picture::drawn($view, $format));
	my $scale = $view->{option}{scale};
	my @words = $viewer eq 'gv' && $scale ? ("--scale=$scale") : ();
	no warnings 'exec';
	Talk::fail(1, "$program: did not work; the picture is $file")
	    if system({$program} $program, @words, $file);
}

# Shows the source lines of the routines that match in a browser, as a page in a file of own_file().
sub listing {
	my ($view, $pattern) = @_;
	open(my $page, '>', \my $text) or Talk::fail(1, "listing: $!");
	my $before = select $page;
	my $is_listed = eval { Source::list($view, $pattern); 1 };
	my $error = $@;
	select $before;
	die $error unless $is_listed;
	my $title = Flame::escape($pattern);
	my $lines = join "\n", map { Flame::escape($_) } split /\n/, $text // '';
	show(own_file($view, '.html',
			"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
			    . "<title>$title</title></head><body><pre>$lines</pre></body></html>\n"));
}
