# Box: the black box of a process (prof_blackbox), which holds its tables when it was killed. One
# program reads the tables, for all tools: jeprofctl. It checks each object and makes a profile of
# them as the library writes it, and what jeprof reads is that profile. Callers: Input, and the verb
# salvage.
package Box;

my %text; # by path: a box of a process that lives is read once

# Do these bytes begin a box, of a machine of whichever byte order?
sub is_one { return $_[0] =~ /\A(?:jjptable|elbatpjj)/ ? 1 : 0 }

# The profile in a file.
sub of_file {
	my ($path) = @_;
	return $text{$path} //= profile($path, undef, $path =~ /^-/ ? "./$path" : $path);
}

# The same of bytes that came compressed or from a pipe.
sub of_bytes {
	my ($path, $data) = @_;
	return profile($path, $data, '-');
}

sub profile {
	my ($path, $data, $name) = @_;
	my $ctl = Tool::find('jeprofctl') // Talk::fail(1,
		"$path: tables of the profiler are read by jeprofctl, which is not there; "
		    . 'where it is: ' . Talk::command('salvage', '-o', 'FILE.heap', [$path]));
	my ($code, $out, $err) = Tool::asked($data, $ctl, 'dump', '-q', '--core', $name, '-o', '-');
	my ($why) = $err =~ /^(?:jeprofctl: )?(?:\Q$name\E: )?(.*)$/m;
	Talk::fail(1, "$path: " . ($why // 'jeprofctl failed')) if $code;
	return $out;
}

# ---- the verb ----
# The profile of a box or of a core file, for readers that know neither.
sub salvage {
	my ($option, @files) = @_;
	Talk::fail(2, 'salvage takes one black box or core file') if @files != 1;
	my ($path) = @files;
	Talk::fail(1, "$path: no such file") unless $path eq '-' || -e $path;
	my $text = $path eq '-' ? of_bytes($path, Input::raw($path)) : of_file($path);
	Dump::doubt_cut($path, $1) if $text =~ /^# jemalloc[.]cut=([1-9]\d*)$/m;
	Export::put($option, 'salvage', $path, $text);
}
